"""Who won and who lost from one run to another, request by request."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, ints, is_known, known
from schedbench.results.spread import Spread, spread

COMPARED: Final = ("ttft_ns", "e2e_ns")


@dataclass(frozen=True, slots=True)
class Change:
    """One request's latency in both runs, ns."""

    row: int
    request_id: str
    first_ns: int
    other_ns: int


@dataclass(frozen=True, slots=True)
class WinnersAndLosers:
    """Of the requests that have this latency in both runs: how many changed, and which most.

    `delta` is the spread of other - first, ns; negative is faster.
    """

    metric: str
    faster: int
    slower: int
    same: int
    delta: Spread
    winners: tuple[Change, ...]
    losers: tuple[Change, ...]


def winners_and_losers(
    first: pa.Table, other: pa.Table, metric: str, top: int = 5
) -> WinnersAndLosers:
    """Compare the requests tables of two runs of a trace by `metric`, one of COMPARED."""
    rows, before, after = _aligned(first, other, metric)
    delta = after - before
    order = np.lexsort((rows, delta))
    faster, slower = int((delta < 0).sum()), int((delta > 0).sum())
    ids = dict(zip(first["row"].to_pylist(), first["request_id"].to_pylist(), strict=True))

    def changes(places: Ints) -> tuple[Change, ...]:
        return tuple(
            Change(int(rows[at]), ids[int(rows[at])], int(before[at]), int(after[at]))
            for at in places
        )

    return WinnersAndLosers(
        metric=metric,
        faster=faster,
        slower=slower,
        same=len(delta) - faster - slower,
        delta=spread(delta),
        winners=changes(order[: min(top, faster)]),
        losers=changes(order[::-1][: min(top, slower)]),
    )


def _aligned(first: pa.Table, other: pa.Table, metric: str) -> tuple[Ints, Ints, Ints]:
    """Rows whose requests have the metric in both runs, and its values there."""
    (rows_a, values_a), (rows_b, values_b) = (_present(table, metric) for table in (first, other))
    rows, in_a, in_b = np.intersect1d(rows_a, rows_b, assume_unique=True, return_indices=True)
    return rows, values_a[in_a], values_b[in_b]


def _present(requests: pa.Table, metric: str) -> tuple[Ints, Ints]:
    has = is_known(requests, metric)
    return ints(requests, "row")[has], known(requests, metric, has)
