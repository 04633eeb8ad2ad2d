"""The largest of the last n values, for any n: kept as those that no later value reaches."""

from __future__ import annotations

from bisect import bisect_left


class Peaks:
    """Values by index; indices grow."""

    def __init__(self) -> None:
        self._indices: list[int] = []
        self._values: list[int] = []  # falling

    def push(self, index: int, value: int) -> None:
        while self._values and self._values[-1] <= value:
            self._values.pop()
            self._indices.pop()
        self._values.append(value)
        self._indices.append(index)

    def largest_since(self, index: int) -> int:
        """The largest value at `index` or later."""
        return self._values[bisect_left(self._indices, index)]
