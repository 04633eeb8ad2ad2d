"""Where in an input something stands, in the words of every complaint about a trace."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from schedbench.errors import TraceError

Mask = npt.NDArray[np.bool_]

_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """A value as a message quotes it, cut to a length a terminal can hold."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


@dataclass(frozen=True, slots=True)
class Place:
    """A source and the number of its first row at hand; rows count from 0, lines from 1."""

    source: str
    first_row: int = 0
    line_of: Callable[[int], int] | None = None
    """For text files: the line that holds a row, looked up only when something is wrong."""

    def moved(self, rows: int) -> "Place":
        return replace(self, first_row=self.first_row + rows)

    def row(self, index: int) -> str:
        row = self.first_row + index
        return f"row {row}" if self.line_of is None else f"row {row} (line {self.line_of(row)})"

    def refuse(self, index: int, column: str, found: str, remedy: str) -> TraceError:
        """The error for one row; `found` states the value and the rule that it breaks."""
        where = f"{self.source}: {self.row(index)}, column {column}"
        return TraceError(f"{where}: {found}. {remedy}.")

    def refuse_column(self, column: str, found: str, remedy: str) -> TraceError:
        return TraceError(f"{self.source}: column {column}: {found}. {remedy}.")

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
        tail = f" (and {others:,} more row{'s'[: others > 1]})" if others else ""
        raise self.refuse(first, column, found(first) + tail, remedy)
