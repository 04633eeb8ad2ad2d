"""The tables of a page about runs: which run is which, latencies, the configuration."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedbench.results.catalog import Unit
from schedbench.results.report.subject import Subject, letter_of
from schedbench.results.sheet import Cell, Heading, Sheet, facts
from schedbench.results.units import number, scale_for

_UNSET: Final = "-"
_POINTS: Final = ("p50", "p90", "p99", "max")


def latencies_sheet(subjects: Sequence[Subject], latencies: Mapping[str, str]) -> Sheet:
    """The percentiles under the curves, a row a run and latency; all of a latency in one unit."""
    headings = (
        Heading("latency", is_number=False),
        *((Heading("run", is_number=False),) if len(subjects) > 1 else ()),
        *map(Heading, ("n", *_POINTS)),
        Heading("", is_number=False),
    )
    rows = []
    for key, title in latencies.items():
        spreads = [subject.run.summary[key] for subject in subjects]
        scale = scale_for(Unit.NS, [spread["p50"] for spread in spreads])
        for place, spread in enumerate(spreads):
            run = (Cell(letter_of(place)),) if len(subjects) > 1 else ()
            values = [Cell(scale.text(spread[point])) for point in _POINTS]
            rows.append(
                (
                    Cell("" if place else title),
                    *run,
                    Cell(number(spread["n"])),
                    *values,
                    Cell(scale.unit),
                )
            )
    return Sheet("", headings, tuple(rows))


def config_sheets(subjects: Sequence[Subject]) -> list[Sheet]:
    """Each flag and each derived value, a column a run; what differs is marked."""
    flags = [subject.run.flags for subject in subjects]
    derived = [subject.run.manifest.get("derived", {}) for subject in subjects]
    formulas = {name: text for each in subjects for name, text in each.formulas.items()}
    about = [
        (
            f"{letter_of(place)}: replayed with" if len(subjects) > 1 else "replayed with",
            " ".join(each.run.manifest.get("command_line", [])),
        )
        for place, each in enumerate(subjects)
    ]
    return [
        _values("Derived values", derived, formulas),
        _values("Flags", flags, {}),
        facts(about),
    ]


def _values(title: str, values: Sequence[Mapping[str, Any]], formulas: Mapping[str, str]) -> Sheet:
    several = len(values) > 1
    letters = [letter_of(place) for place in range(len(values))] if several else ["value"]
    headings = [Heading("name", is_number=False), *map(Heading, letters)]
    headings += [Heading("", is_number=False)] if several else []
    headings += [Heading("formula", is_number=False)] if formulas else []
    rows = []
    for name in dict.fromkeys(name for each in values for name in each):
        texts = [flag_text(each.get(name)) for each in values]
        cells = [Cell(name), *map(Cell, texts)]
        cells += [Cell("differs" if len(set(texts)) > 1 else "")] if several else []
        rows.append((*cells, *((Cell(formulas.get(name, "")),) if formulas else ())))
    return Sheet(title, tuple(headings), tuple(rows))


def flag_text(value: object) -> str:
    """A flag's value, so that it can be typed again."""
    if value is None:
        return _UNSET
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
