"""How often the features of random cases met, two by two, as `make parity` prints it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.fuzz_flags import FEATURES, LARGE, absent_from

if TYPE_CHECKING:
    from collections.abc import Iterator

CELL = 5  # characters of a count


def meetings(seed: int, count: int, release: str) -> list[str]:
    """Lines of a triangle: row and column name two features, a cell the cases that had both."""
    names = [name for name in FEATURES if name not in absent_from(release)]
    drawn = [_features(draw_scenario(seed + each, release).header["note"]) for each in range(count)]
    met = Counter(pair for case in drawn for pair in combinations(_in_order(case, names), 2))
    alone = Counter(name for case in drawn for name in case)
    least = min(combinations(names, 2), key=lambda pair: met[pair])
    return [
        f"cases in which two features met, of {count}; a column's number is its row's",
        *_triangle(names, alone, met),
        f"least often: {' and '.join(least)}, {met[least]} times",
        f"all of {', '.join(sorted(LARGE))}: {sum(case >= LARGE for case in drawn)} times",
    ]


def _features(note: str) -> frozenset[str]:
    return frozenset(note.split()) & FEATURES.keys()


def _in_order(case: frozenset[str], names: list[str]) -> list[str]:
    return [name for name in names if name in case]


def _triangle(
    names: list[str], alone: Counter[str], met: Counter[tuple[str, str]]
) -> Iterator[str]:
    """A line a feature: how many cases had it, then those that had an earlier one as well."""
    width = max(map(len, names)) + 4
    yield " " * (width + CELL) + "".join(f"{number:>{CELL}}" for number in range(1, len(names)))
    for number, name in enumerate(names, 1):
        cells = "".join(f"{met[earlier, name]:>{CELL}}" for earlier in names[: number - 1])
        yield f"{number:>2}  {name:<{width - 4}}{alone[name]:>{CELL}}{cells}"
