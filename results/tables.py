"""How sheets look on a terminal, and as plain text in a pipe: the only room here that knows rich.

Numbers are never cut: a table that is wider than the terminal is printed in parts below each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from typing import Final, NamedTuple, TextIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from schedbench.results.fit import parts_that_fit
from schedbench.results.sheet import Cell, Mark, Sheet, View

_STYLES: Final = {
    Mark.PLAIN: "",
    Mark.BEST: "bold green",
    Mark.BETTER: "green",
    Mark.WORSE: "red",
    Mark.FAILED: "red",
    Mark.QUIET: "bright_black",
}
_GAP: Final = 3  # columns of space between tables that stand side by side
_PIPE_WIDTH: Final = 120  # side by side up to here in a pipe, whatever the terminal
_NO_LIMIT: Final = 100_000


def show(view: View, file: TextIO) -> None:
    """Write a view: with colour on a terminal unless NO_COLOR is set, else as plain text."""
    if not file.isatty():
        file.write(plain_text(view))
        return
    width = Console(file=file).width
    console = Console(file=file, width=_NO_LIMIT, highlight=False)
    parts = [part for sheet in view.sheets for part in parts_that_fit(sheet, width)]
    view = replace(view, sheets=tuple(parts))
    for block in _blocks(view, console, width):
        console.print(block.content, width=width if block.wraps else None)


def plain_text(view: View) -> str:
    """A view without colour and without limits of width; lines end where their text does."""
    out = StringIO()
    console = Console(file=out, width=_NO_LIMIT, color_system=None, highlight=False)
    for block in _blocks(view, console, _PIPE_WIDTH):
        console.print(block.content)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


class _Block(NamedTuple):
    """What is printed at once. Sentences wrap at the width of the terminal, numbers do not."""

    content: Text | Table
    wraps: bool


def _blocks(view: View, console: Console, width: int) -> Iterator[_Block]:
    """Title, tables and warnings, a blank line between them."""
    blank = _Block(Text(""), wraps=True)
    if view.title:
        yield _Block(Text(view.title, "bold"), wraps=True)
    tables = [_table(sheet) for sheet in view.sheets if sheet.rows]
    for place, row in enumerate(_rows_that_fit(tables, console, width)):
        if place or view.title:
            yield blank
        yield _Block(row[0] if len(row) == 1 else _side_by_side(row), not row[0].show_header)
    if view.warnings:
        yield blank
    for line in view.warnings:
        yield _Block(Text.assemble(("warning: ", "bold yellow"), line), wraps=True)


def _rows_that_fit(
    tables: Sequence[Table], console: Console, width: int
) -> Iterator[Sequence[Table]]:
    """Neighbours side by side as long as there is room; facts stand alone."""
    row: list[Table] = []
    used = 0
    for table in tables:
        needed = Measurement.get(console, console.options, table).maximum + (_GAP if row else 0)
        if row and (used + needed > width or not table.show_header):
            yield row
            row, used = [], 0
        row.append(table)
        used += needed if table.show_header else width
    if row:
        yield row


def _side_by_side(tables: Sequence[Table]) -> Table:
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_row(*tables)
    return grid


def _table(sheet: Sheet) -> Table:
    table = Table(
        title=sheet.title or None,
        title_style="bold",
        title_justify="left",
        caption=sheet.note or None,
        caption_style="bright_black",
        caption_justify="left",
        box=box.SIMPLE_HEAD if sheet.headings else None,
        show_header=bool(sheet.headings),
        show_edge=False,
        pad_edge=False,
        padding=(0, 1 if sheet.headings else 2, 0, 0),
        header_style="bold",
    )
    for heading in sheet.headings:
        table.add_column(
            heading.title, justify="right" if heading.is_number else "left", no_wrap=True
        )
    if not sheet.headings:
        table.add_column(style="bright_black", no_wrap=True)
        table.add_column(overflow="fold")
    for row in sheet.rows:
        table.add_row(*map(_text, row))
    return table


def _text(cell: Cell) -> Text:
    """A cell; the star of the best stands before it, so that numbers still align."""
    star = f"{Mark.BEST.value} " if cell.mark is Mark.BEST else ""
    return Text(star + cell.text, _STYLES[cell.mark])
