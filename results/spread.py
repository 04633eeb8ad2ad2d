"""Mean, percentiles and maximum of a set of values, exact and in whole units.

Of values that are in memory: they are sorted, as far as it takes. Of those of a table in parts: it
is swept several times, and each time the stretch that holds a wanted rank becomes 65,536 times as
narrow. That takes the memory of some hundred thousand counters, however many values there are.
Values span less than 2**63, and a cell counts less than 2**53 of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, tally, total
from schedbench.results.parts import Rows, parts

PERCENTILES: Final = (50, 90, 99)
SPREAD_KEYS: Final = ("n", "mean", *(f"p{percent}" for percent in PERCENTILES), "max")

Spread: TypeAlias = dict[str, int | None]
"""By SPREAD_KEYS; all but `n` are None where n is 0: there are no percentiles of nothing."""

Values: TypeAlias = tuple[Ints, Ints | None]
"""Values, and how often each of them occurs: once, if that is None."""

_CELL_BITS: Final = 16  # a stretch is counted in so many cells, as a power of two


def spread(values: Ints, counts: Ints | None = None) -> Spread:
    """The spread of `values`, each of which occurs `counts` times (once if not given).

    With counts it equals the spread of the values written out that many times.
    """
    if counts is None:
        n, ranks = len(values), sorted(_ranks(len(values)))
        ordered = np.partition(values, ranks) if n else values  # at these places
        return _told(n, total(values), {rank: int(ordered[rank]) for rank in ranks})
    values, counts = tally(values, counts)
    order = np.argsort(values)
    ordered, upto = values[order], np.cumsum(counts[order])
    n = int(upto[-1]) if values.size else 0
    at = {rank: int(ordered[np.searchsorted(upto, rank, side="right")]) for rank in _ranks(n)}
    return _told(n, total(values, counts), at)


def spreads(
    rows: Rows, names: Sequence[str], of: Callable[[pa.Table], Mapping[str, Values]]
) -> dict[str, Spread]:
    """The spread of each of the sets of values that `of` finds in the parts of a table."""
    if isinstance(rows, pa.Table):
        return {name: spread(*values) for name, values in of(rows).items()}
    sets: dict[str, _Set] = {}
    for part in parts(rows, names):
        for name, values in of(part).items():
            sets.setdefault(name, _Set()).measure(*values)
    searches = {name: _Search(each) for name, each in sets.items()}
    while any(search.stretches for search in searches.values()):
        for part in parts(rows, names):
            for name, values in of(part).items():
                searches[name].count(*values)
        for search in searches.values():
            search.close_in()
    return {name: _told(sets[name].n, sets[name].sum, searches[name].at) for name in sets}


@dataclass(slots=True)
class _Set:
    """How many values there are, what they add up to, and between which two they all lie."""

    n: int = 0
    sum: int = 0
    low: int = 2**63 - 1
    high: int = -(2**63)

    def measure(self, values: Ints, counts: Ints | None) -> None:
        self.sum += total(values, counts)
        self.n += len(values) if counts is None else total(counts)
        if counts is not None:
            values = values[counts > 0]
        if values.size:
            self.low = min(self.low, int(values.min()))
            self.high = max(self.high, int(values.max()))


class _Stretch:
    """The values from `low` on, in cells of 2**`cell_bits` of them; `before` lie below `low`."""

    def __init__(self, low: int, bits: int, before: int) -> None:
        self.low, self.before = low, before
        self.cell_bits = max(0, bits - _CELL_BITS)
        self._cells = np.zeros(1 << (bits - self.cell_bits), np.int64)

    def count(self, values: Ints, counts: Ints | None) -> None:
        places = (values - self.low) >> self.cell_bits
        inside = (places >= 0) & (places < len(self._cells))
        weights = None if counts is None else counts[inside]
        self._cells += np.bincount(places[inside], weights, len(self._cells)).astype(np.int64)

    def cell_with(self, rank: int) -> tuple[int, int]:
        """The lowest value of the cell with the value at `rank`, and how many lie below it."""
        upto = np.cumsum(self._cells)
        place = int(np.searchsorted(upto, rank - self.before, side="right"))
        below = int(upto[place]) - int(self._cells[place])
        return self.low + (place << self.cell_bits), self.before + below


class _Search:
    """Closes in on the values at the ranks that are wanted of a set, sweep by sweep."""

    def __init__(self, values: _Set) -> None:
        self.at: dict[int, int] = {}  # by rank, its value, once it is found
        whole = _Stretch(values.low, max(0, values.high - values.low).bit_length(), before=0)
        self._sought = dict.fromkeys(_ranks(values.n), whole)

    @property
    def stretches(self) -> set[_Stretch]:
        """Those that have to be counted in the next sweep."""
        return set(self._sought.values())

    def count(self, values: Ints, counts: Ints | None) -> None:
        for stretch in self.stretches:
            stretch.count(values, counts)

    def close_in(self) -> None:
        """After a sweep."""
        sought, self._sought = self._sought, {}
        narrower: dict[int, _Stretch] = {}
        for rank, stretch in sought.items():
            low, before = stretch.cell_with(rank)
            if not stretch.cell_bits:
                self.at[rank] = low
                continue
            if low not in narrower:
                narrower[low] = _Stretch(low, stretch.cell_bits, before)
            self._sought[rank] = narrower[low]


def _ranks(n: int) -> set[int]:
    """The places, in the order of `n` values, of those that a spread is made of."""
    around = {min(_rank(n, percent)[0] + i, n - 1) for percent in PERCENTILES for i in (0, 1)}
    return around | {n - 1} if n else set()


def _rank(n: int, percent: int) -> tuple[int, int]:
    """The rank (n - 1) * percent / 100: the place below it, and the hundredths beyond that."""
    return divmod((n - 1) * percent, 100)


def _told(n: int, of_all: int, at: Mapping[int, int]) -> Spread:
    """A spread, from the values `at` the wanted ranks."""
    if not n:
        return dict.fromkeys(SPREAD_KEYS) | {"n": 0}
    points = {f"p{percent}": _percentile(n, percent, at) for percent in PERCENTILES}
    return {"n": n, "mean": of_all // n, **points, "max": at[n - 1]}


def _percentile(n: int, percent: int, at: Mapping[int, int]) -> int:
    """Linear interpolation between the two closest ranks, as `numpy.percentile` does by default.

    Whole numbers throughout, so that the result is the same on every machine; a fraction of a unit
    is dropped.
    """
    place, hundredths = _rank(n, percent)
    below, above = at[place], at[min(place + 1, n - 1)]
    return below + (above - below) * hundredths // 100
