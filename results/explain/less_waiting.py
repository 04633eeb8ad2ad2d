"""Which changed flag lets a class of requests wait less: only what was replayed, and does."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schedbench.results.explain.waiting import Waiting
from schedbench.results.explain.what_if import Tried, WhatIfs
from schedbench.results.explain.what_if_sheet import in_words, taken_beside
from schedbench.results.sheet import Cell, Heading, Mark, Sheet
from schedbench.results.units import duration

_ALL = "all requests"
_MOST = 4  # classes that advice is looked for


@dataclass(frozen=True, slots=True)
class Target:
    """A class of requests; `rows` None: all of them."""

    by: str
    name: str
    rows: tuple[int, ...] | None = None

    @property
    def label(self) -> str:
        return f"{self.by} {self.name}" if self.by else _ALL


@dataclass(frozen=True, slots=True)
class LessWaiting:
    """A change with which a class waits less, in ns of the mean over its requests."""

    target: Target
    tried: Tried
    was_ns: int
    now_ns: int


def targets_of(found: Waiting) -> list[Target]:
    """All requests, then the classes that starve, and the most urgent one that waits."""
    starved = sorted(found.starved, key=lambda each: -each.mean_ns)[: _MOST - 1]
    urgent = [each for each in found.groups if each.by == "priority" and each.waited_ns]
    chosen = [*starved, *sorted(urgent, key=lambda each: int(each.name))[:1]]
    targets = [Target(each.by, each.name, each.rows) for each in chosen]
    return [Target("", ""), *dict.fromkeys(targets)]


def less_waiting(found: Waiting, what_ifs: WhatIfs) -> list[LessWaiting]:
    """Of each class the changes that shorten its mean wait, the best first."""
    helping = []
    for target in targets_of(found):
        was_ns = what_ifs.base.mean_wait_ns(target.rows)
        for each in what_ifs.tried:
            now_ns = each.mean_wait_ns(target.rows)
            if was_ns is not None and now_ns is not None and now_ns < was_ns:
                helping.append(LessWaiting(target, each, was_ns, now_ns))
    places = {target: place for place, target in enumerate(targets_of(found))}
    return sorted(helping, key=lambda each: (places[each.target], each.now_ns))


def less_waiting_sheet(found: Waiting, what_ifs: WhatIfs | None) -> Sheet:
    headings = (
        Heading("waits less", is_number=False),
        Heading("with", is_number=False),
        Heading("mean wait was"),
        Heading("mean wait then"),
    )
    if what_ifs is None:
        return Sheet("", headings, ())
    helping = less_waiting(found, what_ifs)
    useless = [each for each in what_ifs.tried if all(h.tried is not each for h in helping)]
    lines = taken_beside({id(each.tried): each.tried for each in helping}.values())
    if useless:
        lines.append(f"tried, and no better: {', '.join(in_words(t.changes) for t in useless)}")
    if what_ifs.times:
        lines.append(what_ifs.times)
    rows = tuple(_row(each) for each in helping)
    return Sheet("", headings, rows, "\n".join(lines))


def _row(each: LessWaiting) -> tuple[Cell, ...]:
    return (
        Cell(each.target.label),
        Cell(in_words(each.tried.changes)),
        Cell(duration(each.was_ns)),
        Cell(duration(each.now_ns), mark=Mark.BETTER),
    )


def as_data(found: Waiting, what_ifs: WhatIfs | None) -> Iterator[dict[str, Any]]:
    """For JSON: what helps which class, and by how much."""
    for each in [] if what_ifs is None else less_waiting(found, what_ifs):
        yield {
            "for": each.target.label,
            "changes": dict(each.tried.changes),
            "takes": each.tried.takes or None,
            "mean_wait_was_ns": each.was_ns,
            "mean_wait_ns": each.now_ns,
        }
