"""What a search may choose from, flag by flag."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

LOG_FROM: Final = 8
"""Times the low end: from here on a range is searched by factors, not by steps."""

COARSE: Final = 4
FINE: Final = 16
"""A whole number is cut to a quarter of its power of two, so that people can read it, and so that
few numbers are left to choose from; beside the best, when those are used up, to a sixteenth."""

COARSE_STEP: Final = 0.005
FINE_STEP: Final = 0.001
"""The same of a number that is not whole."""

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

    def snapped(self, value: float, *, fine: bool = False) -> float | int:
        """The nearest value that is easy to read."""
        if not self.whole:
            step = FINE_STEP if fine else COARSE_STEP
            return self.clipped(round(round(value / step) * step, 3))
        power = max(int(value), 1).bit_length() - 1
        whole_step = max(1, (1 << power) // (FINE if fine else COARSE))
        return self.clipped(round(value / whole_step) * whole_step)

    def clipped(self, value: float) -> float | int:
        """The value itself, or the end of the range that it lies beyond."""
        kept = min(max(value, self.low), self.high)
        return int(kept) if self.whole else kept

    def at(self, share: float, *, fine: bool = False) -> float | int:
        """The value that lies so far between `low` (0) and `high` (1)."""
        if self.is_log:
            return self.snapped(self.low * (self.high / self.low) ** share, fine=fine)
        return self.snapped(self.low + (self.high - self.low) * share, fine=fine)

    def share(self, value: float) -> float:
        """How far a value lies between `low` (0) and `high` (1)."""
        if self.low == self.high:
            return 0.0
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def middle(self) -> float | int:
        return self.at(0.5)


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

    def at(self, share: float, *, fine: bool = False) -> Any:  # noqa: ANN401, ARG002 - one of them
        """The value that lies so far between the first (0) and the last (1)."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def share(self, value: Any) -> float:  # noqa: ANN401 - one of the values
        """How far a value lies between the first (0) and the last (1)."""
        return (self.values.index(value) + 0.5) / len(self.values)

    @property
    def middle(self) -> Any:  # noqa: ANN401 - one of the values
        return self.at(0.5)

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


def distance(space: Space, point: Point, start: Mapping[str, Any]) -> tuple[int, float]:
    """From what is set without a search: how many flags are moved, and how far in their ranges."""
    known = {name: each.clipped(start[name]) for name, each in space.items()}
    moved = {name: each for name, each in space.items() if point[name] != known[name]}
    ways = [abs(each.share(point[name]) - each.share(known[name])) for name, each in moved.items()]
    return len(moved), sum(ways)


def spread(space: Space, count: int, seed: int) -> list[Point]:
    """So many points all over the space: of every flag's range each part of it in one of them.

    A Latin hypercube: a range is cut into `count` equal parts, and shuffled.
    """
    random = Random(seed)  # noqa: S311 - no secret
    columns = {}
    for name, each in space.items():
        parts = random.sample(range(count), count)
        columns[name] = [each.at((part + random.random()) / count) for part in parts]
    return [{name: column[n] for name, column in columns.items()} for n in range(count)]


def beside(
    space: Space, point: Point, known: Sequence[Point], earlier: Sequence[Point] = ()
) -> list[Point]:
    """New points beside one, a flag at a time, each half way to what is known on that side.

    Where nothing is known on a side it is half way to the end. The longest way comes first, so
    that whoever asks again and again closes in on the best from afar; numbers that are hard to
    read come last. What is known beside `earlier` bests that only other flags tell apart from
    `point` counts as known beside it.
    """
    found: list[tuple[bool, float, Point]] = []
    for name, each in space.items():
        bases = [point, *(base for base in earlier if base[name] == point[name])]
        line = [each.share(other[name]) for other in known if {**other, name: point[name]} in bases]
        here = each.share(point[name])
        lower = max((share for share in line if share < here), default=0.0)
        upper = min((share for share in line if share > here), default=1.0)
        for there in (lower, upper):
            for fine in (False, True):
                moved = {**point, name: each.at((here + there) / 2, fine=fine)}
                if moved not in known and moved != point:
                    found.append((fine, -abs(there - here), moved))
                    break
    found.sort(key=lambda each: each[:2])
    return [moved for _, _, moved in found]
