"""Who was evicted, by whom, at what cost, and what would have ended it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Eviction:
    """One eviction. `by` is the request that got the blocks; None: the prefix cache was reset."""

    index: int | None  # of the pass; None: between two passes
    at_ns: int
    row: int
    name: str
    by: str | None
    reason: str
    tokens: int  # computed ones, thrown away
    running: int  # how many ran before it


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of one flag that ends preemption, found by bisection; None: there is none.

    `fails` is the value nearest to it that was tried and does not end it.
    """

    flag: str
    was: float | int
    value: float | int | None
    replays: int
    summary: Mapping[str, Any] | None = None
    fails: float | int | None = None
    reason: str = ""  # why there is none
    takes: str = ""  # what it takes beside, where the GPU has no room for it


@dataclass(frozen=True, slots=True)
class Preemptions:
    """All evictions of a run in order, its summary, and the remedies that were looked for."""

    evictions: tuple[Eviction, ...]
    summary: Mapping[str, Any]
    remedies: tuple[Remedy, ...] = ()
    times: str = ""  # where pass times of the remedies come from, if not from the run's --cost
    stalled: bool = False  # so that the summary is over what came before, and comparable to nothing

    @property
    def victims(self) -> Counter[int]:
        """How often each row was evicted."""
        return Counter(each.row for each in self.evictions)

    @property
    def histogram(self) -> dict[int, int]:
        """By number of evictions, how many requests had so many."""
        return dict(sorted(Counter(self.victims.values()).items()))

    @property
    def reasons(self) -> dict[str, int]:
        return dict(Counter(each.reason for each in self.evictions).most_common())

    @property
    def evictors(self) -> Counter[str]:
        return Counter(each.by for each in self.evictions if each.by is not None)
