"""Gaps between tokens, counted by length: exact, and small however many lengths there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.results.run_rows import Integers

MOST_LENGTHS = 200_000  # in the counter, before they are put into arrays


class IntervalCounts(Counter[int]):
    """Interval in ns -> how often. Many lengths are kept in arrays, at 16 bytes each."""

    def __init__(self) -> None:
        super().__init__()
        self._lengths: Integers = np.zeros(0, np.int64)
        self._counts: Integers = np.zeros(0, np.int64)

    def count(self, lengths: Integers, counts: Integers) -> None:
        """Count many at once; a length may come more than once."""
        counted = np.flatnonzero(counts)
        if not len(counted):
            return
        order = counted[np.argsort(lengths[counted])]
        lengths, counts = lengths[order], counts[order]
        first = np.flatnonzero(np.diff(lengths, prepend=lengths[0] - 1))
        sums = np.add.reduceat(counts, first)
        for length, number in zip(lengths[first].tolist(), sums.tolist(), strict=True):
            self[length] += number

    def settle(self) -> None:
        """Put what was counted into the arrays, if it is much."""
        if len(self) > MOST_LENGTHS:
            self._merge()

    def in_order(self) -> Iterator[tuple[Integers, Integers]]:
        """Lengths and how often each was counted, shortest first, a part at a time."""
        self._merge()
        for first in range(0, len(self._lengths), MOST_LENGTHS):
            part = slice(first, first + MOST_LENGTHS)
            yield self._lengths[part], self._counts[part]

    def _merge(self) -> None:
        lengths = np.fromiter(self.keys(), np.int64, len(self))
        counts = np.fromiter(self.values(), np.int64, len(self))
        self.clear()
        both = np.concatenate((self._lengths, lengths))
        self._lengths, places = np.unique(both, return_inverse=True)
        merged = np.zeros(len(self._lengths), np.int64)
        np.add.at(merged, places, np.concatenate((self._counts, counts)))
        self._counts = merged
