"""Does one job after another with this project: replay a case, write its log again, profile it.

    contest.serve -> {"do": "replay", "case": {...}, "path": trace, "folder": scratch, ...}

A replay is the whole call with the run folder written; the trace is loaded before.
"""

from __future__ import annotations

import cProfile
import gc
import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from cases import COST, Case, load
from contest import Figures, serve
from top_lines import top_lines

from schedbench.results.part_writer import PartWriter
from schedbench.results.pass_log import PASS_COLUMNS
from schedbench.runner.clock import parse_cost
from schedbench.runner.run import ReplayOptions, Run, replay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa

CHUNK_ROWS = 4096  # of the log written again: as many as a replay hands over at once
_logs: dict[str, pa.Table] = {}  # the passes of the last case that was replayed


def main() -> None:
    """Serve until there is no more to do."""
    serve(lambda job: JOBS[job["do"]](job))


@contextmanager
def timed(figures: Figures) -> Iterator[None]:
    """CPU seconds of all threads and by the clock."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    figures |= {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}


def replay_job(job: Figures) -> Figures:
    """Replay a case and count what must be equal whoever replays it."""
    figures: Figures = {}
    run = _replay(job, timed(figures))
    case = json.dumps(job["case"])
    if case not in _logs:
        _logs.clear()
        _logs[case] = run.passes
    return {**figures, **_counts(run)}


def _replay(job: Figures, watch: AbstractContextManager[object]) -> Run:
    case = Case(**job["case"])
    trace = load(Path(job["path"]), case.limit, hash_ids=case.hash_ids)
    options = ReplayOptions(
        speedup=case.speedup,
        arrivals="all-at-once" if case.all_at_once else "open",
        short_way=job["short_way"],
    )
    out = fresh(Path(job["folder"]) / "run")
    with watch:
        return replay(trace, case.config(), parse_cost(COST), options=options, out=out)


def _counts(run: Run) -> dict[str, Any]:
    names = ("requests", "passes", "tokens_scheduled", "preempted")
    last = run.passes.column("decisions")[-1].as_py()
    return {**{name: run.summary[name] for name in names}, "decisions": str(last)}


def write_job(job: Figures) -> Figures:
    """Write a case's pass log from memory: through the run folder's writer, or by plain pyarrow."""
    table = _logs[json.dumps(job["case"])]
    out = fresh(Path(job["folder"]) / "log")
    out.mkdir()
    figures: Figures = {"passes": table.num_rows}
    if job["plain"]:
        with timed(figures):
            pq.write_table(table, out / "passes.parquet", compression="zstd", compression_level=1)
        return figures
    chunks = [
        (len(batch), batch.columns) for batch in table.combine_chunks().to_batches(CHUNK_ROWS)
    ]
    with timed(figures):
        writer = PartWriter(out, PASS_COLUMNS)
        for rows, columns in chunks:
            writer.extend_columns(rows, columns)
        writer.close()
    return figures


def profile_job(job: Figures) -> Figures:
    """Where a replay spends its time."""
    profile = cProfile.Profile()
    _replay(job, profile)
    return {"text": top_lines(profile)}


def fresh(folder: Path) -> Path:
    """A path where nothing lies."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


JOBS = {"replay": replay_job, "write": write_job, "profile": profile_job}

if __name__ == "__main__":
    main()
