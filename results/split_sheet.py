"""Runs split by priority, client, adapter or group: who gets how much, and waits how long."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from schedbench.results.catalog import flatten, metric_of
from schedbench.results.metric_column import ColumnOfCells, metric_column
from schedbench.results.sheet import Cell, Heading, Sheet, View
from schedbench.results.units import NOTHING

_SHOWN: Final = {
    "requests_finished": "n",
    "requests_unfinished": "unfin.",
    "requests_aborted": "abort.",
    "ttft_ns.p50": "TTFT p50",
    "ttft_ns.p99": "TTFT p99",
    "queue_ns.max": "longest queue",
    "tpot_ns.p50": "TPOT p50",
    "e2e_ns.p99": "E2E p99",
    "goodput.share": "in SLO",
    "preemptions": "preempt.",
    "tokens_served_share": "tokens",
}

Split: TypeAlias = Mapping[str, Any]
"""The result of `fairness.split`."""


def split_view(splits: Sequence[tuple[str, Split]]) -> View:
    """A sheet for each run, named; all of them split by the same column."""
    sheets = tuple(split_sheet(name, split) for name, split in splits)
    return View("", sheets, _flat(splits), dict(splits))


def split_sheet(title: str, split: Split) -> Sheet:
    """A row a group; below, how even they are."""
    groups = split["groups"]
    numbers = [dict(flatten(group)) for group in groups.values()]
    columns: list[ColumnOfCells] = [
        (Heading(split["by"], is_number=False), [Cell(name, name) for name in groups]),
        *(
            metric_column(metric_of(key), name, [each.get(key) for each in numbers])
            for key, name in _SHOWN.items()
            if any(key in each for each in numbers)
        ),
    ]
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Sheet(title, tuple(heading for heading, _ in columns), rows, _evenness(split["jain"]))


def _evenness(jain: Mapping[str, float | None]) -> str:
    tokens, ttft = (
        NOTHING if jain[key] is None else f"{jain[key]:.3f}"
        for key in ("tokens_served", "ttft_mean")
    )
    return f"Jain's index (1: all equal): tokens served {tokens}, mean TTFT {ttft}"


def _flat(splits: Sequence[tuple[str, Split]]) -> Sheet:
    """A row a run and group, a column a number, for CSV."""
    rows = [
        {"run": run, "by": split["by"], "group": name, **dict(flatten(group))}
        for run, split in splits
        for name, group in split["groups"].items()
    ]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = tuple(tuple(Cell("", row.get(key)) for key in keys) for row in rows)
    return Sheet("", tuple(map(Heading, keys)), cells)
