"""Coarse clocks: found, reported, and spread over the tick only when that is asked for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schedbench.workloads.arrays import Integers
from schedbench.workloads.arrival_profile import NS_PER_S, find_tick

_COARSE_SHARE = 0.05  # of the rows, at an instant that an earlier row has taken
_WHOLE_SHARE = 0.5  # of the rows, at whole multiples of a power of ten


@dataclass(frozen=True, slots=True)
class Tick:
    """`instants`: distinct arrival times; `most_at_once`: rows at the fullest of them."""

    tick_ns: int
    instants: int
    most_at_once: int
    rows: int
    on_grid: npt.NDArray[np.bool_]
    """Which rows a spread may move."""

    @property
    def is_coarse(self) -> bool:
        return self.rows - self.instants > _COARSE_SHARE * self.rows

    def provenance(self) -> dict[str, Any]:
        return {
            "tick_ns": self.tick_ns,
            "instants": self.instants,
            "most_at_once": self.most_at_once,
            "rows_sharing_an_earlier_instant": self.rows - self.instants,
        }

    def note(self) -> str:
        return (
            f"arrivals fall on {self.instants:,} instants, {self.tick_ns / NS_PER_S:g} s apart, up "
            f"to {self.most_at_once} at once: bursts may be the clock's own; --spread draws them "
            "over the tick"
        )


def tick_of(arrivals: Integers, origin_ns: int) -> Tick | None:
    """The step of the source's clock; None when all rows arrive at one instant.

    Either the arrivals' gaps are multiples of it (Mooncake: 3 s, give or take 1 ms), or most
    times are multiples of a power of ten (BurstGPT: whole seconds, some with a fraction).
    """
    step = find_tick(np.diff(arrivals))
    if step is None:
        return None
    _, rows = np.unique(arrivals, return_counts=True)
    on_grid = np.ones(arrivals.size, dtype=np.bool_)
    for decimal_ns in (10**digits for digits in range(9, 5, -1)):
        whole = (arrivals + origin_ns) % decimal_ns == 0
        if decimal_ns > step and whole.sum() >= _WHOLE_SHARE * arrivals.size:
            step, on_grid = decimal_ns, whole
            break
    return Tick(step, rows.size, int(rows.max()), arrivals.size, on_grid)


def spread_over(arrivals: Integers, tick: Tick, seed: int) -> npt.NDArray[np.int64]:
    """Each instant's rows drawn evenly over its tick, or up to the next instant if that is near.

    Rows between ticks stay; sorted arrivals stay sorted. The words of PCG64 are the same in
    every numpy (NEP 19).
    """
    instants, at = np.unique(arrivals, return_inverse=True)
    room = np.full(instants.size, tick.tick_ns, dtype=np.int64)
    room[:-1] = np.minimum(room[:-1], np.diff(instants))
    words = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(arrivals.size)
    drawn = (words % room[at].astype(np.uint64)).astype(np.int64)
    return np.sort(arrivals + np.where(tick.on_grid, drawn, 0))
