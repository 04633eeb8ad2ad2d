"""What made two runs part, as data and as sheets; found by `schedbench.runner.upgrade`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from schedbench.results.units import number


@dataclass(frozen=True, slots=True)
class Cause:
    """Behaviours and flags by name, as they are typed.

    `alone`: each of them, switched in the first run alone, decides the first differing pass as the
    other run does. `together`: where none does, those without which the other run decides it as
    the first. `next_index` and `summary` are of the first run with the first of `alone`, replayed
    whole: where it parts from the other run (None: nowhere), and its numbers.
    """

    switches: int  # that the two runs differ in
    tried: int  # replays with one of them switched; the others were never asked about
    alone: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    next_index: int | None = None
    summary: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def cause_rows(cause: Cause | str | None, letter: str) -> list[tuple[str, str]]:
    """Facts in words; `letter` is the other run's. A text says why no cause was looked for."""
    if cause is None:
        return []
    if isinstance(cause, str):
        return [("caused by", f"not looked for: {cause}")]
    tried = f"{number(cause.tried)} of {number(cause.switches)} differences tried, one at a time"
    if cause.alone:
        name, *more = cause.alone
        also = f"; so does {', '.join(more)}" if more else ""
        found = f"{name}: alone it makes A decide that pass as {letter} does ({tried}){also}"
        return [("caused by", found), ("with it alone", _rest(cause, letter))]
    if cause.together:
        names = ", ".join(cause.together)
        return [("caused by", f"{names}, together: none is enough alone ({tried})")]
    return [("caused by", f"more than one at once, which is not told apart ({tried})")]


def _rest(cause: Cause, letter: str) -> str:
    if cause.summary is None:
        return "A does not come to an end"
    if cause.next_index is None:
        return f"A decides every pass as {letter} does: the others change nothing here"
    return f"A decides as {letter} does up to pass {number(cause.next_index)}; there another begins"
