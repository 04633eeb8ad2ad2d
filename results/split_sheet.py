"""Requests of one or more runs split by a column of the trace, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedbench.results.catalog import Unit, flatten
from schedbench.results.sheet import Cell, Heading, Sheet, View, facts
from schedbench.results.units import number, percent, scale_for

_TIMES: Final = {
    "ttft_ns.p50": "TTFT p50",
    "ttft_ns.p99": "TTFT p99",
    "queue_ns.max": "queue max",
    "tpot_ns.p50": "TPOT p50",
    "e2e_ns.p99": "E2E p99",
}
_JAIN: Final = {"tokens_per_request": "tokens served per request", "ttft_mean": "mean TTFT"}


def split_view(by: str, names: Sequence[str], parts: Sequence[Mapping[str, Any]]) -> View:
    """`parts`: for each run, what `fairness.split` found."""
    rows = [
        (name, group, found)
        for name, part in zip(names, parts, strict=True)
        for group, found in part["groups"].items()
    ]
    sheets = (
        facts([(letter, name) for letter, name in zip(_letters(names), names, strict=True)]),
        _groups(by, names, rows),
        _fairness(names, parts),
    )
    data = [{"run": name, **part} for name, part in zip(names, parts, strict=True)]
    return View("", sheets, _flat(by, rows), data)


def _letters(names: Sequence[str]) -> list[str]:
    return ["run"] if len(names) == 1 else [chr(ord("A") + place) for place in range(len(names))]


def _groups(by: str, names: Sequence[str], rows: Sequence[tuple[str, str, Any]]) -> Sheet:
    letters = dict(zip(names, _letters(names), strict=True))
    columns: list[tuple[Heading, list[str]]] = [
        (Heading(by, is_number=False), [group for _, group, _ in rows]),
        *_counts([found for _, _, found in rows]),
        *(_times(key, title, [found for _, _, found in rows]) for key, title in _TIMES.items()),
        (Heading("tokens"), [percent(found["tokens_served_share"]) for _, _, found in rows]),
        (Heading("preempt."), [number(found["preemptions"]) for _, _, found in rows]),
    ]
    if all("goodput" in found for _, _, found in rows):
        shares = [percent(found["goodput"]["share"]) for _, _, found in rows]
        columns.append((Heading("in SLO"), shares))
    if len(names) > 1:
        columns.insert(0, (Heading("run", is_number=False), [letters[name] for name, _, _ in rows]))
    cells = zip(*([Cell(text) for text in texts] for _, texts in columns), strict=True)
    return Sheet("", tuple(heading for heading, _ in columns), tuple(cells))


def _counts(found: Sequence[Mapping[str, Any]]) -> list[tuple[Heading, list[str]]]:
    titles = {"requests": "requests", "requests_finished": "n"}
    titles |= {"requests_unfinished": "unfin.", "requests_aborted": "abort."}
    return [
        (Heading(title), [number(each[key]) for each in found]) for key, title in titles.items()
    ]


def _times(key: str, title: str, found: Sequence[Mapping[str, Any]]) -> tuple[Heading, list[str]]:
    name, _, point = key.partition(".")
    values = [each[name][point] for each in found]
    scale = scale_for(Unit.NS, values)
    return Heading(f"{title} {scale.unit}"), [scale.text(value) for value in values]


def _fairness(names: Sequence[str], parts: Sequence[Mapping[str, Any]]) -> Sheet:
    told = []
    for letter, part in zip(_letters(names), parts, strict=True):
        label = "Jain's index" if len(names) == 1 else f"Jain's index {letter}"
        jain = part["jain"]
        of = [f"{number(jain[key])} of {words}" for key, words in _JAIN.items() if jain[key]]
        told.append((label, " · ".join(of)))
    return facts(told)


def _flat(by: str, rows: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Sheet:
    """A row a group, a column a number, for CSV."""
    numbers = [dict(flatten(found)) for _, _, found in rows]
    keys = list(dict.fromkeys(key for each in numbers for key in each))
    cells = [
        tuple(Cell("", raw) for raw in (name, group, *(each.get(key) for key in keys)))
        for (name, group, _), each in zip(rows, numbers, strict=True)
    ]
    return Sheet("", tuple(Heading(title) for title in ("run", by, *keys)), tuple(cells))
