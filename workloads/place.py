"""Where in an input something stands, in the words of every complaint about a trace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from schedbench.errors import TraceError

Mask = npt.NDArray[np.bool_]

_SHOWN_CHARACTERS = 60
_NAMED = 24


def shown(value: object) -> str:
    """A value as a message quotes it, cut to a length a terminal can hold.

    As the file would write it: `3.5` and `2026-01-01`, not Python's objects for them.
    """
    match value:
        case Decimal() | date() | time() | timedelta():
            text = str(value)
        case bytes():
            text = f"the bytes {value.hex(' ')}"
        case _:
            text = printable(repr(value))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def printable(text: str) -> str:
    """Text of a file, such as a column's name, with escapes for what would move a cursor."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Names of columns in their order, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(printable(name) or "''" for name in names[:most]) + more


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True, slots=True)
class Place:
    """A source and the number of its first row at hand; rows count from 0, lines from 1.

    `also` says where else a row can be found, such as `line 3`; it is asked only when something
    is wrong. `names` are the source's own names of columns.
    """

    source: str
    first_row: int = 0
    also: Callable[[int], str | None] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def _name(self, column: str) -> str:
        return printable(self.names.get(column, column))

    def moved(self, rows: int) -> "Place":
        return replace(self, first_row=self.first_row + rows)

    def row(self, index: int) -> str:
        row = self.first_row + index
        elsewhere = None if self.also is None else self.also(row)
        return f"row {row} ({elsewhere})" if elsewhere else f"row {row}"

    def refuse(self, index: int, column: str, found: str, remedy: str) -> TraceError:
        """The error for one row; `found` states the value and the rule that it breaks."""
        where = f"{self.source}: {self.row(index)}, column {self._name(column)}"
        return TraceError(f"{where}: {found}. {remedy}.")

    def refuse_column(self, column: str, found: str, remedy: str) -> TraceError:
        return TraceError(f"{self.source}: column {self._name(column)}: {found}. {remedy}.")

    def refuse_input(self, found: str, remedy: str) -> TraceError:
        return TraceError(f"{self.source}: {found}. {remedy}.")

    def refuse_where(
        self, bad: Mask, column: str, found: Callable[[int], str], remedy: str
    ) -> None:
        """Raise for the first row that is marked, and say how many more there are."""
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        first = int(rows[0])
        others = rows.size - 1
        tail = f" (and {counted(others, 'more row')})" if others else ""
        raise self.refuse(first, column, found(first) + tail, remedy)
