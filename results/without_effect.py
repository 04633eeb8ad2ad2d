"""Which flags of a grid change nothing: whatever the others are, all values come to the same.

What is compared is everything that a summary holds, counters, verdicts and times, but what is
measured against the pool or the budget: that changes with their size though no decision does.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Protocol

from schedbench.results.catalog import flatten
from schedbench.results.setting_text import option_text

_OF_THE_SIZE: Final = ("kv.", "budget.", "budget_stranded", "drafts.kept_tokens")


class Point(Protocol):
    """A combination of flags, and what came of it."""

    @property
    def flags(self) -> Mapping[str, Any]: ...
    @property
    def summary(self) -> Mapping[str, Any] | None: ...
    @property
    def failure(self) -> str: ...


def flags_without_effect(points: Sequence[Point]) -> list[str]:
    """By name, in the order of the flags; none where combinations are missing, or all failed."""
    values = {name: {repr(point.flags.get(name)) for point in points} for name in _names(points)}
    combinations = 1
    for each in values.values():
        combinations *= len(each)
    if combinations != len(points) or all(point.summary is None for point in points):
        return []
    results = [_result(point) for point in points]
    return [name for name in values if len(values[name]) > 1 and _is_idle(name, points, results)]


def told(names: Sequence[str], flags: int) -> str:
    """A line about them, `flags` being how many vary; empty where each makes a difference."""
    if not names:
        return ""
    listed = " and ".join(map(option_text, names))
    whose = "its" if len(names) == 1 else "their"
    where = ", whatever the other flags were" if flags > len(names) else ""
    return (
        f"{listed} made no difference: all {whose} values gave the same decisions and times{where}"
    )


def _names(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(name for point in points for name in point.flags))


def _is_idle(name: str, points: Sequence[Point], results: Sequence[Hashable]) -> bool:
    by_others: dict[Hashable, set[Hashable]] = {}
    for point, result in zip(points, results, strict=True):
        others = tuple((key, repr(value)) for key, value in point.flags.items() if key != name)
        by_others.setdefault(others, set()).add(result)
    return all(len(found) == 1 for found in by_others.values())


def _result(point: Point) -> Hashable:
    if point.summary is None:
        return point.failure
    return tuple(
        (key, repr(value))
        for key, value in flatten(point.summary)
        if not key.startswith(_OF_THE_SIZE)
    )
