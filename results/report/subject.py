"""A run as the subject of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedbench.results.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class Subject:
    """A stored run, and what only the scheduler's configuration can say of it."""

    run: StoredRun
    warnings: tuple[str, ...] = ()
    formulas: Mapping[str, str] = field(default_factory=dict)  # of derived values, by name


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the clock that the charts over time show; None is no bound. Half open, ns."""

    from_ns: int | None = None
    to_ns: int | None = None


def letter_of(place: int) -> str:
    return chr(ord("A") + place)
