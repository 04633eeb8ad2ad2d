"""A trace several times over, each time as new traffic."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.bounds import Bounds
from schedbench.errors import UsageError
from schedbench.workloads.arrays import ragged, required
from schedbench.workloads.lists import map_items
from schedbench.workloads.rows import known_rows, replace_column
from schedbench.workloads.trace import Trace

Ids = npt.NDArray[np.integer[Any]]

_LATEST_NS = 2**63 - 1
MOST_ROWS = 100_000_000  # all rounds together; they are made in memory
_PREFIX_IDS = ("hash_ids", "output_hash_ids")


def repeat(trace: Trace, times: int, *, gap_ns: int | None = None) -> Trace:
    """The trace `times` times, one after the other, `gap_ns` apart (the mean gap if None).

    Every round has fresh request ids (`~1`, `~2`, ... appended), sessions, prefix ids and encoder
    hashes: it hits nothing that an earlier round left in a cache. Otherwise the second round would
    find every prompt cached, and measure that.
    """
    most = max(1, MOST_ROWS // max(1, trace.num_requests))
    Bounds(1, most).check(times, "--repeat")
    last = max(int(required(trace.table, name).max()) for name in _time_columns(trace))
    if gap_ns is None:
        gap_ns = last // max(trace.num_requests - 1, 1)
    if gap_ns < 0:
        raise UsageError(f"repeat: a gap of {gap_ns} ns would let the rounds overlap")
    period = last + gap_ns
    if period * times > _LATEST_NS:
        raise UsageError(f"repeat: {times} rounds of {period} ns pass 2^63 ns, 292 years")
    fresh = _Fresh(trace.table, times)
    rounds = [_round(trace, k, period, fresh) for k in range(times)]
    step = {"step": "repeat", "times": times, "gap_ns": gap_ns}
    return trace.with_table(pa.concat_tables(rounds), step)


def _time_columns(trace: Trace) -> list[str]:
    return [name for name in ("arrival_ns", "added_ns") if trace.has(name)]


def _round(trace: Trace, k: int, period: int, fresh: "_Fresh") -> pa.Table:
    """Round k: everything that counts from the start, or names something, moved on k times."""
    table = trace.table
    steps = dict.fromkeys(_time_columns(trace), k * period)
    steps["after"] = k * trace.num_requests
    if trace.has("session"):
        steps["session"] = k * (int(required(table, "session").max()) + 1)
    for name, step in steps.items():
        if trace.has(name):
            moved = pa.array(required(table, name) + step, mask=~known_rows(table, name))
            table = replace_column(table, name, moved)
    if trace.has("request_id") and k:
        labels = pc.binary_join_element_wise(table.column("request_id"), f"~{k}", "")
        table = replace_column(table, "request_id", labels)
    return fresh.applied(table, k)


class _Fresh:
    """New identities for prefix blocks and encoder items, one range of numbers a round."""

    def __init__(self, table: pa.Table, times: int) -> None:
        prefix_ids = [ragged(table.column(name))[1] for name in _PREFIX_IDS if _has(table, name)]
        self._prefix = _renamer(prefix_ids, times)
        hashes = (
            [ragged(table.column("encoder"))[1].field("hash")] if _has(table, "encoder") else []
        )
        self._encoder = _renamer(hashes, times)

    def applied(self, table: pa.Table, k: int) -> pa.Table:
        for name in _PREFIX_IDS:
            if _has(table, name):
                new = map_items(table.column(name), lambda ids: self._prefix(ids, k))
                table = replace_column(table, name, new)
        if _has(table, "encoder"):
            new = map_items(table.column("encoder"), lambda items: self._items(items, k))
            table = replace_column(table, "encoder", new)
        return table

    def _items(self, items: pa.Array, k: int) -> pa.Array:
        fields = [items.field(i) for i in range(items.type.num_fields)]
        at = items.type.get_field_index("hash")
        fields[at] = self._encoder(fields[at], k)
        return pa.StructArray.from_arrays(fields, fields=list(items.type))


def _renamer(columns: list[pa.Array], times: int) -> Callable[[pa.Array, int], pa.Array]:
    """A function (ids, round) -> the ids of that round: shifted past the largest id.

    Ids that are 64-bit hashes leave no room for that and are numbered by rank first.
    """
    every = np.concatenate([np.empty(0, np.uint64), *(ids.to_numpy() for ids in columns)])
    stride = int(every.max(initial=0)) + 1
    ranks = np.unique(every) if stride * times > 2**64 else None

    def renamed(ids: pa.Array, k: int) -> pa.Array:
        plain = ids.to_numpy()
        if ranks is None:
            return pa.array(plain + np.uint64(k * stride))
        return pa.array(np.searchsorted(ranks, plain).astype(np.uint64) + np.uint64(k * ranks.size))

    return renamed


def _has(table: pa.Table, name: str) -> bool:
    return name in table.column_names
