"""The processes of a sweep, and the one copy of the trace that they read."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.runner.sweep_worker import load_shared
from schedbench.workloads.store import write_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.workloads.trace import Trace


@contextmanager
def shared(trace: Trace) -> Iterator[tuple[str, str | None]]:
    """The trace as one file that every worker reads, however it came into memory here."""
    with tempfile.TemporaryDirectory(prefix="schedbench-sweep-") as folder:
        path = Path(folder) / "trace.parquet"
        write_trace(trace, path)
        yield str(path), trace.path


@contextmanager
def worker_pool(workers: int, path: str, known_path: str | None) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that are ended with the block, even in the middle of a replay."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=load_shared,
        initargs=(path, known_path),
    )
    try:
        yield pool
    except BaseException:  # an interrupt, or an iterator that is closed early
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
