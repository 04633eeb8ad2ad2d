"""Processes that hold one trace and work on it, each on a core of its own.

The trace is read once by every process, from one file; an item of work travels by itself. Whoever
leaves the block in the middle, by an interrupt or an error, ends the processes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from schedbench.errors import UsageError
from schedbench.workloads.store import read_trace, write_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from schedbench.workloads.trace import Trace

Item = TypeVar("Item")
Result = TypeVar("Result")

_held: list[Trace] = []
_NOT_STARTED: Final = (
    "the worker processes did not start. Each imports the script that was run, so put what it does "
    'under `if __name__ == "__main__":`, or give workers=1 to work in this process'
)


class Pool(Protocol):
    """Whoever works on items of one trace, in a `with` block that ends them."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def each(
        self, function: Callable[[Trace, Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | None]]:
        """What the function makes of every item, as they end; None where the process was killed."""
        ...


class Workers:
    """`count` processes, as many as there are cores if left out; one works in this process."""

    def __init__(self, trace: Trace, count: int | None = None) -> None:
        self._trace = trace
        self.count = count or cores()
        self._pool: ProcessPoolExecutor | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._before = set(multiprocessing.active_children())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            if kind is not None:
                for process in set(multiprocessing.active_children()) - self._before:
                    process.terminate()
            self._pool.shutdown(cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()

    def each(
        self, function: Callable[[Trace, Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | None]]:
        """What the function makes of every item, as they end; None where the process was killed.

        The function has to be one of a module's own, so that other processes find it.
        """
        if self.count <= 1 or (len(items) <= 1 and self._pool is None):
            for item in items:
                yield item, function(self._trace, item)
            return
        pool = self._pool = self._pool or self._started()
        waiting = {pool.submit(_work, function, item): item for item in items}
        for done in as_completed(waiting):
            yield waiting[done], _result(done)

    def _started(self) -> ProcessPoolExecutor:
        self._folder = tempfile.TemporaryDirectory(prefix="schedbench-")
        path = Path(self._folder.name) / "trace.parquet"
        write_trace(self._trace, path)
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise SystemExit(1)  # the script runs anew in a process that it started: see below
        pool = ProcessPoolExecutor(
            self.count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_hold,
            initargs=(str(path), self._trace.path),
        )
        try:
            pool.submit(_is_ready).result()
        except BrokenExecutor as error:
            raise UsageError(_NOT_STARTED) from error
        return pool


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count()
        return 1 if count is None else count


def _hold(path: str, known_path: str | None) -> None:
    """Read the trace when the process starts; `known_path` is where the user has it.

    An interrupt is the parent's to deal with: it ends this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _held[:] = [replace(read_trace(path), path=known_path)]


def _is_ready() -> bool:
    return True


def _end_with_parent() -> None:
    """Go when the parent is gone, however it went: nobody waits for the result any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(function: Callable[[Trace, Any], Any], item: object) -> object:
    return function(_held[0], item)


def _result(done: Future[Any]) -> Any:  # noqa: ANN401 - whatever the function returns
    try:
        return done.result()
    except BrokenExecutor:
        return None
