"""Replays with a flag changed, as a table: what each does for one request, and to all others."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from schedbench.results.catalog import CATALOG, Unit, flatten
from schedbench.results.explain.what_if import Tried, WhatIfs
from schedbench.results.metric_column import metric_column
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, facts
from schedbench.results.units import number, scale_for

_OF_ALL: Final = {
    "ttft_ns.p50": "all: TTFT p50",
    "ttft_ns.p99": "p99",
    "output_tokens_per_s": "out",
    "preempted": "preempt.",
}
_AS_IT_WAS: Final = "as it was"


def in_words(changes: Mapping[str, Any]) -> str:
    """Changed flags as they are typed."""
    return " ".join(_typed(name, value) for name, value in changes.items()) or _AS_IT_WAS


def _typed(name: str, value: object) -> str:
    option = _SPELLINGS.get(name, name).replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option} {value:g}" if isinstance(value, float) else f"--{option} {value}"


_SPELLINGS: Final = {"policy": "scheduling-policy", "num_speculative_tokens": "spec-tokens"}


def taken_beside(shown: Iterable[Tried]) -> list[str]:
    """A line for each change that the run's GPU has no room for, and what it takes."""
    return [f"{in_words(each.changes)}: {each.takes}" for each in shown if each.takes]


def request_what_ifs(what_ifs: WhatIfs, row: int) -> list[Sheet]:
    """The changes that let a request in sooner; those that do not, and why, in a note."""
    shorter = what_ifs.shortening(row)
    without_effect = [each for each in what_ifs.tried if each not in shorter]
    if not shorter:
        tried = ", ".join(in_words(each.changes) for each in without_effect)
        return [facts([("sooner", f"none of the changes tried lets it in sooner: {tried}")])]
    shown = [what_ifs.base, *shorter]
    queue = [each.queue_ns(row) for each in shown]
    waited = [each.waited_ns(row) for each in shown]
    columns = [
        _column("sooner with", [in_words(each.changes) for each in shown], is_number=False),
        _times("queue", queue),
        *([_times("waited in all", waited)] if waited != queue else []),
        _times("TTFT", [each.of_row(row).get("ttft_ns") for each in shown]),
        *_of_all(shown),
        *_winners(what_ifs, shorter, row),
    ]
    rows = zip(*(cells for _, cells in columns), strict=True)
    note = _note(what_ifs, shorter, without_effect)
    if waited != queue and what_ifs.base.awaiting_input_ns(row):
        note = "\n".join(filter(None, ["waited in all: but for input that had not come", note]))
    return [Sheet("", tuple(heading for heading, _ in columns), tuple(rows), note)]


def run_what_ifs(what_ifs: WhatIfs, title: str = "what if") -> Sheet:
    """The changes with which requests wait less in all, and what they do to the run."""
    of_use = what_ifs.of_use()
    shown = [what_ifs.base, *of_use]
    columns = [
        _column(title, [in_words(each.changes) for each in shown], is_number=False),
        *_of_all(shown),
    ]
    rows = zip(*(cells for _, cells in columns), strict=True)
    others = [each for each in what_ifs.tried if each not in of_use]
    return Sheet(
        "", tuple(heading for heading, _ in columns), tuple(rows), _note(what_ifs, of_use, others)
    )


def _note(what_ifs: WhatIfs, shown: Sequence[Tried], without_effect: Sequence[Tried]) -> str:
    lines = taken_beside(shown)
    if what_ifs.base.failure:
        lines.append(f"no numbers as it was: {what_ifs.base.failure.partition('.')[0]}")
    if without_effect:
        tried = ", ".join(in_words(each.changes) for each in without_effect)
        lines.append(f"tried, and no better: {tried}")
    if what_ifs.times:
        lines.append(what_ifs.times)
    return "\n".join(lines)


def _of_all(shown: Sequence[Tried]) -> list[tuple[Heading, list[Cell]]]:
    numbers = [dict(flatten(each.summary or {})) for each in shown]
    return [
        metric_column(CATALOG[key], title, [each.get(key) for each in numbers])
        for key, title in _OF_ALL.items()
    ]


def _winners(
    what_ifs: WhatIfs, shorter: Sequence[Tried], row: int
) -> list[tuple[Heading, list[Cell]]]:
    found = [each for tried in shorter if (each := what_ifs.others(tried, row)) is not None]
    if not found:
        return []
    faster, slower = ([getattr(each, name) for each in found] for name in ("faster", "slower"))
    return [
        _column("others: sooner", ["", *map(number, faster)], mark=Mark.BETTER),
        _column("later", ["", *map(number, slower)], mark=Mark.WORSE),
    ]


def _times(title: str, values: Sequence[int | None]) -> tuple[Heading, list[Cell]]:
    scale = scale_for(Unit.NS, values)
    return _column(f"{title} {scale.unit}", [scale.text(value) for value in values])


def _column(
    title: str, texts: Sequence[str], *, is_number: bool = True, mark: Mark = Mark.PLAIN
) -> tuple[Heading, list[Cell]]:
    return Heading(title, is_number), [Cell(text, mark=mark) for text in texts]
