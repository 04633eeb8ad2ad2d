"""What a search may choose from, flag by flag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

LOG_FROM: Final = 8
"""Times the low end: from here on a range is searched by factors, not by steps."""

FINENESS: Final = 16
"""A whole number is cut to a sixteenth of its power of two, so that people can read it."""

Point: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included."""

    low: float
    high: float
    whole: bool = True

    @property
    def is_log(self) -> bool:
        return self.low > 0 and self.high / self.low >= LOG_FROM

    def snapped(self, value: float) -> float | int:
        """The nearest value that is easy to read."""
        if not self.whole:
            return round(value, 3)
        step = max(1, 1 << (int(value).bit_length() - 1) >> (FINENESS.bit_length() - 1))
        return int(min(max(round(value / step) * step, self.low), self.high))

    def clipped(self, value: float) -> float | int:
        return self.snapped(min(max(value, self.low), self.high))

    @property
    def middle(self) -> float | int:
        middle = (self.low * self.high) ** 0.5 if self.is_log else (self.low + self.high) / 2
        return self.snapped(middle)


@dataclass(frozen=True)
class Choices:
    """A few values, in the order given."""

    values: tuple[Any, ...]

    def snapped(self, value: Any) -> Any:  # noqa: ANN401 - one of the values
        return value

    def clipped(self, value: Any) -> Any:  # noqa: ANN401 - one of the values
        """The value itself if it is among them, else the nearest number, else the first."""
        if value in self.values:
            return value
        if isinstance(value, int | float) and all(isinstance(v, int | float) for v in self.values):
            return min(self.values, key=lambda each: abs(each - value))
        return self.values[0]

    @property
    def middle(self) -> Any:  # noqa: ANN401 - one of the values
        return self.values[len(self.values) // 2]

    @property
    def high(self) -> Any:  # noqa: ANN401 - one of the values
        return self.values[-1]


Space: TypeAlias = Mapping[str, Range | Choices]


def first_points(space: Space, known: Mapping[str, Any]) -> list[Point]:
    """Where a search begins: what is set now, the middle of everything, and as much as there is."""
    found = [
        {name: each.clipped(known[name]) for name, each in space.items()},
        {name: each.middle for name, each in space.items()},
        {name: each.snapped(each.high) for name, each in space.items()},
    ]
    return [point for place, point in enumerate(found) if point not in found[:place]]


def neighbours(space: Space, point: Mapping[str, Any], reach: float) -> list[Point]:
    """Points beside one, a flag at a time; `reach` is a share of each range."""
    found: list[Point] = []
    for name, each in space.items():
        for value in _beside(each, point[name], reach):
            moved = {**point, name: value}
            if moved != point and moved not in found:
                found.append(moved)
    return found


def _beside(each: Range | Choices, value: Any, reach: float) -> list[Any]:  # noqa: ANN401
    if isinstance(each, Choices):
        place = each.values.index(value)
        return [each.values[p] for p in (place - 1, place + 1) if 0 <= p < len(each.values)]
    if each.is_log:
        factor = (each.high / each.low) ** reach
        return [each.clipped(value / factor), each.clipped(value * factor)]
    step = (each.high - each.low) * reach
    return [each.clipped(value - step), each.clipped(value + step)]
