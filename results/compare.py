"""Stored runs side by side: what differs, from which pass on, and who won and lost by it.

Data in, data out. Every run is held against the first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import ne
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from schedbench.errors import RunStoreError
from schedbench.results.arrays import ints
from schedbench.results.catalog import Better, Metric, flatten, metric_of
from schedbench.results.held_run import ReplayedRun, as_stored
from schedbench.results.pass_log import CLOCK_COLUMNS
from schedbench.results.stored_run import StoredRun
from schedbench.results.untold import UNTOLD

Number = float | int | None

_MILESTONES = ("first_scheduled_ns", "first_token_ns", "finish_ns")


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric over all runs; for each run but the first, whether it is better or worse."""

    metric: Metric
    values: tuple[Number, ...]
    verdicts: tuple[str, ...]  # "better", "worse", "same", or "" where neither is

    def change(self, run: int) -> float | None:
        """Relative to the first run; None where that has none, or 0."""
        first, other = self.values[0], self.values[run]
        return None if not first or other is None else other / first - 1


@dataclass(frozen=True, slots=True)
class PassDifference:
    """The first pass that differs: its row in either run, None where that run had ended."""

    index: int
    columns: tuple[str, ...]
    first: dict[str, Any] | None
    other: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that differs between runs. The tuples of run pairs skip the first run."""

    names: tuple[str, ...]
    releases: tuple[str, ...]  # whose decisions each run's are, in words
    flags: dict[str, tuple[Any, ...]]  # those that are not the same in all runs
    tells_flags: tuple[bool, ...]  # of each run, whether it is known how it was set
    differences: tuple[Difference, ...]
    first_summary: dict[str, Any]
    by_decisions: tuple[PassDifference | None, ...]
    by_time_only: tuple[PassDifference | None, ...]
    untold: tuple[tuple[str, ...], ...] = ()  # columns left out, null in one of the two


def compare(
    runs: Sequence[StoredRun | ReplayedRun | Path | str], *, across_traces: bool = False
) -> Comparison:
    """Hold each run against the first: runs as `replay` returns them, or run folders.

    Raises:
        RunStoreError: runs of different traces, or a folder that holds no run.
        TypeError: what is no run.
    """
    return _compared([as_stored(run, n) for n, run in enumerate(runs, 1)], across_traces)


def _compared(runs: Sequence[StoredRun], across_traces: bool) -> Comparison:
    if not across_traces:
        _same_trace(runs)
    logs = [run.passes() for run in runs]
    untold = tuple(_untold(logs[0], log) for log in logs[1:])
    decisions = tuple(
        _first_told(runs[0], run) if left_out else first_by_decisions(logs[0], log)
        for run, log, left_out in zip(runs[1:], logs[1:], untold, strict=True)
    )
    times = tuple(
        _first_by_time(logs[0], log, None if decided is None else decided.index)
        for log, decided in zip(logs[1:], decisions, strict=True)
    )
    return Comparison(
        names=tuple(run.name for run in runs),
        releases=tuple(run.release for run in runs),
        flags=_flags_apart(runs),
        differences=differences([run.summary for run in runs]),
        first_summary=runs[0].summary,
        by_decisions=decisions,
        by_time_only=times,
        tells_flags=tuple(run.tells_flags for run in runs),
        untold=untold,
    )


def differences(summaries: Sequence[dict[str, Any]]) -> tuple[Difference, ...]:
    """Every number that any of the summaries has, in the order of the first that has it."""
    flat = [dict(flatten(summary)) for summary in summaries]
    found = []
    for key in dict.fromkeys(key for numbers in flat for key in numbers):
        metric = metric_of(key)
        values = tuple(numbers.get(key) for numbers in flat)
        verdicts = tuple(_verdict(metric.better, values[0], value) for value in values[1:])
        found.append(Difference(metric, values, verdicts))
    return tuple(found)


def _flags_apart(runs: Sequence[StoredRun]) -> dict[str, tuple[Any, ...]]:
    """Flags in which runs differ; what a server's log does not tell is None, and no difference."""
    flags = [run.flags for run in runs]
    values = {
        name: [each.get(name) for each in flags]
        for name in dict.fromkeys(name for each in flags for name in each)
    }
    told = {
        name: [v for v, run in zip(each, runs, strict=True) if run.tells_flags or name in run.flags]
        for name, each in values.items()
    }
    return {
        name: tuple(each)
        for name, each in values.items()
        if any(value != told[name][0] for value in told[name])
    }


def _verdict(better: Better, first: Number, other: Number) -> str:
    if first == other:
        return "same"
    if better is Better.NEITHER or first is None or other is None:
        return ""
    return "better" if (other > first) == (better is Better.HIGHER) else "worse"


def _same_trace(runs: Sequence[StoredRun]) -> None:
    digests = [_digest_among(run, runs) for run in runs]
    if "" in digests:
        raise RunStoreError(
            f"{runs[digests.index('')].path} does not say which trace it is of, so its passes and "
            "requests may be others. Say --across-traces to compare the numbers only."
        )
    for run, digest in zip(runs, digests, strict=True):
        if digest != digests[0]:
            raise RunStoreError(
                f"{runs[0].path} and {run.path} replay different traces ({digests[0]} and "
                f"{digest}), so their passes and requests do not correspond. "
                "Compare runs of one trace, or say --across-traces to compare the numbers only."
            )


def _digest_among(run: StoredRun, runs: Sequence[StoredRun]) -> str:
    """The trace's digest. A recorded server has that of the trace imported from the recording."""
    if run.recording is None:
        return run.trace_digest
    for other in runs:
        provenance = other.manifest.get("trace", {}).get("provenance", {})
        if provenance.get("format") == "recording" and provenance["files"][0]["name"] == run.name:
            return other.trace_digest
    return run.trace_digest


def first_by_decisions(a: pa.Table, b: pa.Table) -> PassDifference | None:
    """Where the chained digests part, or where one run ends before the other.

    A server's own class does not tell them: then every column counts that both tell.
    """
    untold = {name for log in (a, b) for name in log.column_names if log.column(name).null_count}
    if "decisions" in untold:
        return first_by_values(a, b, untold | {*CLOCK_COLUMNS})
    ours, theirs = (log.column("decisions").to_numpy() for log in (a, b))
    shared = min(len(ours), len(theirs))
    apart = np.flatnonzero(ours[:shared] != theirs[:shared])
    if apart.size:
        return _rows(a, b, int(apart[0]))
    return None if len(ours) == len(theirs) else _rows(a, b, shared)


def _untold(a: pa.Table, b: pa.Table) -> tuple[str, ...]:
    """Columns that one of two runs does not tell: those of vLLM's own class hold nulls."""
    return tuple(name for name in UNTOLD if a.column(name).null_count or b.column(name).null_count)


def _first_told(a: StoredRun, b: StoredRun) -> PassDifference | None:
    """Where two runs part whose digests cannot be held against each other.

    By every column that both tell; then, as long as times are equal, by who was run and who ended,
    for a pass may have equal counts of other requests.
    """
    ours, theirs = a.passes(), b.passes()
    if a.recording is not None or b.recording is not None:  # which has no table of requests
        return first_by_decisions(ours, theirs)
    by_value = first_by_values(ours, theirs, {*CLOCK_COLUMNS, *_untold(ours, theirs)})
    if by_value is not None or _first_by_time(ours, theirs, None) is not None:
        return by_value
    return _first_by_requests(ours, theirs, a.requests(), b.requests())


def _first_by_requests(
    ours: pa.Table, theirs: pa.Table, requests: pa.Table, others: pa.Table
) -> PassDifference | None:
    """The pass in which something first happened to a request in one of two runs alone."""
    apart_ns = []
    by_row, other_by_row = (table.sort_by("row") for table in (requests, others))
    for name in _MILESTONES:
        pairs = (table.column(name).to_pylist() for table in (by_row, other_by_row))
        apart_ns += [
            min(each for each in pair if each is not None)
            for pair in zip(*pairs, strict=True)
            if pair[0] != pair[1]
        ]
    if not apart_ns:
        return None
    index = int(np.searchsorted(ints(ours, "start_ns"), min(apart_ns)))
    return _rows(ours, theirs, min(index, ours.num_rows - 1), UNTOLD)


def first_by_values(a: pa.Table, b: pa.Table, apart_from: Collection[str]) -> PassDifference | None:
    """The first pass with another value in any column that is not left out."""
    shared = min(a.num_rows, b.num_rows)
    apart = np.zeros(shared, dtype=np.bool_)
    for name in a.column_names:
        if name not in apart_from:
            ours, theirs = (log.column(name).slice(0, shared).to_pylist() for log in (a, b))
            apart |= np.fromiter(map(ne, ours, theirs), np.bool_, shared)
    if apart.any():
        return _rows(a, b, int(np.argmax(apart)), apart_from)
    return None if a.num_rows == b.num_rows else _rows(a, b, shared)


def _first_by_time(a: pa.Table, b: pa.Table, before: int | None) -> PassDifference | None:
    """The first pass with another start or duration, among those with the same decisions."""
    shared = min(a.num_rows, b.num_rows) if before is None else before
    apart = np.zeros(shared, dtype=np.bool_)
    for name in CLOCK_COLUMNS:
        apart |= ints(a, name)[:shared] != ints(b, name)[:shared]
    found = np.flatnonzero(apart)
    return _rows(a, b, int(found[0])) if found.size else None


def _rows(a: pa.Table, b: pa.Table, index: int, apart_from: Collection[str] = ()) -> PassDifference:
    first, other = (
        log.slice(index, 1).to_pylist()[0] if index < log.num_rows else None for log in (a, b)
    )
    columns: list[str] = []
    if first is not None and other is not None:
        columns = [k for k in first if first[k] != other[k] and k not in apart_from]
    return PassDifference(index, tuple(columns), first, other)
