"""Where in an input something stands, in the words of every complaint about a trace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from schedbench.errors import TraceError

Mask = npt.NDArray[np.bool_]

_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """A value as a message quotes it, cut to a length a terminal can hold."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


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

    def moved(self, rows: int) -> "Place":
        return replace(self, first_row=self.first_row + rows)

    def row(self, index: int) -> str:
        row = self.first_row + index
        elsewhere = None if self.also is None else self.also(row)
        return f"row {row} ({elsewhere})" if elsewhere else f"row {row}"

    def refuse(self, index: int, column: str, found: str, remedy: str) -> TraceError:
        """The error for one row; `found` states the value and the rule that it breaks."""
        where = f"{self.source}: {self.row(index)}, column {self.names.get(column, column)}"
        return TraceError(f"{where}: {found}. {remedy}.")

    def refuse_column(self, column: str, found: str, remedy: str) -> TraceError:
        name = self.names.get(column, column)
        return TraceError(f"{self.source}: column {name}: {found}. {remedy}.")

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
