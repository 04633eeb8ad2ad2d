"""The passes of a run that a page holds, and its equal slices of time."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, Mask, codes, ints
from schedbench.results.pass_log import CLOCK_COLUMNS, PASS_COLUMNS
from schedbench.results.report.pack import packed
from schedbench.results.report.slices import Slices
from schedbench.results.report.thin import LEFT_OUT, ranked

DRAWN: Final = (
    "tokens_scheduled",
    "prefill_tokens",
    "decode_tokens",
    "spec_tokens",
    "budget_stranded",
    "duration_ns",
    "running",
    "waiting",
    "skipped_waiting",
    "seats_held_by_sessions",
    "kv_blocks_used",
    "kv_blocks_cached",
)
"""Columns whose highest and lowest values are kept at every zoom."""

SUMMED: Final = ("prefill_tokens", "decode_tokens", "spec_tokens", "budget_stranded")
MARKED: Final = ("preempted", "admissions_cancelled")
LABELS: Final = ("running_stop", "admission_stop", "binding_limit")
NOT_SHOWN: Final = ("end_ns", "victims", "decisions")
"""Columns without a packed number: what `lag_ns` says, a list, a digest for programs."""

_VISIBLE_IDLE: Final = (2_000, 20_000)  # parts of a run: what is longer is a gap one can see
_PASSES_A_SLICE: Final = 4
_SLICES: Final = (256, 32_768)


@dataclass(frozen=True, slots=True)
class PassPoints:
    """What a page says about the passes of a run."""

    points: dict[str, Any]
    slices: dict[str, Any]
    labels: dict[str, list[str]]
    victims: list[list[int]]  # of the packed passes that evicted, in their order
    marks: int
    marks_held: int


def pass_points(passes: pa.Table, most: int) -> PassPoints:
    """About `most` passes, all of them where there are no more than that."""
    start, duration, end = (ints(passes, name) for name in CLOCK_COLUMNS)
    idle = np.zeros(len(start), dtype=np.int64)
    idle[1:] = np.maximum(start[1:] - end[:-1], 0)  # nothing could run
    marked = np.zeros(len(start), dtype=np.bool_)
    for name in MARKED:
        marked |= ints(passes, name) > 0
    ranks = _ranks(passes, start, idle, marked, most)
    held = np.flatnonzero(ranks != LEFT_OUT)
    labels = {name: codes(passes, name) for name in LABELS}
    columns = {
        name: codes_or_ints[held]
        for name, codes_or_ints in (
            *((name, ints(passes, name)) for name in _numbers(passes)),
            *((name, places.astype(np.int64)) for name, (places, _) in labels.items()),
        )
    }
    columns |= {
        "rank": ranks[held],
        "idle_ns": idle[held],
        "lag_ns": (end - start - duration)[held],
    }
    evicting = held[ints(passes, "preempted")[held] > 0]
    return PassPoints(
        points=packed(columns),
        slices=_slices(passes, start, end),
        labels={name: known for name, (_, known) in labels.items()},
        victims=passes.column("victims").take(evicting).to_pylist(),
        marks=int(marked.sum()),
        marks_held=int(marked[held].sum()),
    )


def _numbers(passes: pa.Table) -> list[str]:
    shown = {column.name for column in PASS_COLUMNS} - {*LABELS, *NOT_SHOWN}
    return [name for name in passes.column_names if name in shown]


def _ranks(passes: pa.Table, start: Ints, idle: Ints, marked: Mask, most: int) -> Ints:
    """The choice that each pass belongs to; those with marks are in the last one at least."""
    marks = np.flatnonzero(marked)
    if marks.size > most // 2:
        weight = sum(ints(passes, name)[marks] for name in MARKED)
        marks = _heaviest(marks, np.asarray(weight), most // 2)
    series = [each for each in (ints(passes, name) for name in DRAWN) if each.any()]
    span = int(start[-1] - start[0]) if start.size else 0
    gaps = [_gaps(idle, span // parts) for parts in _VISIBLE_IDLE]
    gaps = [each for each in gaps if each.size <= most // 4]
    ranks = ranked(start, series, gaps, most - marks.size if len(start) > most else most)
    is_held = ranks != LEFT_OUT
    last = int(ranks[is_held].max()) if is_held.any() else 0
    ranks[marks[ranks[marks] == LEFT_OUT]] = last
    return ranks


def _gaps(idle: Ints, longer_than_ns: int) -> Ints:
    """The passes after an idle time, and those before it."""
    after = np.flatnonzero(idle > longer_than_ns)
    return np.concatenate([after - 1, after])


def _heaviest(marks: Ints, weight: Ints, most: int) -> Ints:
    """Of each stretch of marks the heaviest one: the same density everywhere."""
    stretch = np.arange(marks.size) * most // marks.size
    order = np.lexsort((-weight, stretch))
    first = np.unique(stretch[order], return_index=True)[1]
    return np.sort(marks[order[first]])


def _slices(passes: pa.Table, start: Ints, end: Ints) -> dict[str, Any]:
    """Sums over equal slices of time: a power of two of them, so that they can be joined."""
    least, most = _SLICES
    wanted = max(1, len(start) // _PASSES_A_SLICE)
    count = min(most, max(least, 1 << wanted.bit_length()))
    slices = Slices.over(start, end, count)
    limit, labels = codes(passes, "binding_limit")
    columns = {"passes": slices.passes}
    columns |= {name: slices.sums(ints(passes, name)) for name in SUMMED}
    for place, label in enumerate(labels):
        columns[f"limit:{label}"] = slices.sums((limit == place).astype(np.int64))
    return {"begin_ns": slices.begin_ns, "width_ns": slices.width_ns, **packed(columns)}
