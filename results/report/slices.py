"""A run cut into equal slices of time: what was in each, exactly, however many passes it had."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from schedbench.results.arrays import Ints

Floats = npt.NDArray[np.float64]


def span_of(times: Sequence[tuple[Ints, Ints]]) -> tuple[int, int]:
    """From the first start to the last end of several runs, each by its starts and ends."""
    return min(int(start_ns[0]) for start_ns, _ in times), max(int(end[-1]) for _, end in times)


@dataclass(frozen=True, slots=True)
class Slices:
    """`count` slices of `width_ns` from `begin_ns` on. A pass belongs to the one it starts in."""

    begin_ns: int
    width_ns: int
    start_ns: Ints
    end_ns: Ints
    place: Ints  # of each pass
    count: int

    @classmethod
    def over(
        cls,
        start_ns: Ints,
        end_ns: Ints,
        count: int,
        span_ns: tuple[int, int] | None = None,
    ) -> Self:
        """Cut `span_ns`, or from the first pass to the end of the last one.

        All passes have to start within. A slice is a nanosecond at least.
        """
        whole = (int(start_ns[0]), int(end_ns[-1])) if start_ns.size else (0, 0)
        begin, end = span_ns or whole
        width = max(1, -(-(end - begin) // count))
        place = np.minimum((start_ns - begin) // width, count - 1)
        return cls(begin, width, start_ns, end_ns, place, count)

    @property
    def passes(self) -> Ints:
        return np.bincount(self.place, minlength=self.count)

    def sums(self, values: Ints) -> Ints:
        """Exact: no column of the pass log sums up to 2**53 in a slice."""
        return np.bincount(self.place, weights=values, minlength=self.count).astype(np.int64)

    def means(self, values: Ints) -> Floats:
        """Per pass; in a slice in which none starts, of the one that is still under way, else 0."""
        passes = self.passes
        means = np.zeros(self.count)
        np.divide(self.sums(values), passes, out=means, where=passes > 0)
        return np.where(passes > 0, means, self._under_way(values))

    def highest(self, values: Ints) -> Floats:
        """The highest of any pass that starts or is under way in a slice, else 0."""
        highest = np.zeros(self.count, dtype=np.int64)
        np.maximum.at(highest, self.place, values)
        return np.where(self.passes > 0, highest, self._under_way(values)).astype(np.float64)

    def _under_way(self, values: Ints) -> Ints:
        """For each slice the value of the pass that began before it, if it goes on into it."""
        if not values.size:
            return np.zeros(self.count, dtype=np.int64)
        begins = self.begin_ns + np.arange(self.count) * self.width_ns
        before = np.maximum(np.searchsorted(self.start_ns, begins) - 1, 0)
        goes_on = self.end_ns[before] > begins
        return np.where(goes_on & (self.start_ns[before] < begins), values[before], 0)
