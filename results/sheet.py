"""Tables as data, before anyone decides how they look: on a terminal, in Markdown, as CSV.

Their text is made visible when they are made; `raw` and `data` are what programs read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from schedbench.results.visible import visible


class Mark(Enum):
    """What is to be seen at once; the text that says it where there is no colour."""

    PLAIN = ""
    BEST = "*"
    BETTER = "better"
    WORSE = "worse"
    FAILED = "failed"
    QUIET = "quiet"


Raw: TypeAlias = str | float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """What a person reads, and beside it the value that a program does."""

    text: str
    raw: Raw = None
    mark: Mark = Mark.PLAIN

    def __post_init__(self) -> None:
        _show(self, "text")


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's title; numbers stand to the right. `key` names it for programs."""

    title: str
    is_number: bool = True
    key: str = ""

    def __post_init__(self) -> None:
        _show(self, "title")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table. Without headings it is a list of facts: a name and a sentence to each.

    `keys`: how many columns say which row it is; on a narrow terminal each part repeats them.
    """

    title: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    keys: int = 1

    def __post_init__(self) -> None:
        _show(self, "title", "note")


@dataclass(frozen=True, slots=True)
class View:
    """The answer of a command: sheets for people, one flat sheet for CSV, data for JSON."""

    title: str
    sheets: tuple[Sheet, ...]
    flat: Sheet
    data: Any
    warnings: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        _show(self, "title")
        object.__setattr__(self, "warnings", tuple(visible(each) for each in self.warnings))


def _show(made: object, *names: str) -> None:
    for name in names:
        text = getattr(made, name)
        if (shown := visible(text)) is not text:
            object.__setattr__(made, name, shown)


def facts(rows: Sequence[tuple[str, str]], title: str = "") -> Sheet:
    """A list of facts; those without anything to say are left out."""
    cells = [(Cell(name), Cell(text)) for name, text in rows if text]
    return Sheet(title, (), tuple(cells))
