"""How sheets look on a terminal, and as plain text in a pipe: the only room here that knows rich.

Numbers are never cut: a table that is wider than the terminal is printed in parts below each other.
Titles, commands and paths are never broken, so that they can be copied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Final, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from schedbench.results.fit import parts_that_fit
from schedbench.results.sheet import Cell, Mark, Sheet, View
from schedbench.results.visible import visible
from schedbench.results.wrap import wrapped

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
_LEAST_WIDTH: Final = 20  # of sentences beside long names
_BETWEEN_FACTS: Final = 2  # spaces after a name


def show(view: View, file: TextIO) -> None:
    """Write a view: with colour on a terminal unless NO_COLOR is set, else as plain text."""
    if not file.isatty():
        file.write(plain_text(view))
        return
    width = Console(file=file).width
    console = Console(file=file, width=_NO_LIMIT, highlight=False)
    parts = [part for sheet in view.sheets for part in parts_that_fit(sheet, width)]
    for block in _blocks(replace(view, sheets=tuple(parts)), console, width, width):
        console.print(block)


def plain_text(view: View) -> str:
    """A view without colour and without limits of width; lines end where their text does."""
    out = StringIO()
    console = Console(file=out, width=_NO_LIMIT, color_system=None, highlight=False)
    for block in _blocks(view, console, _PIPE_WIDTH, None):
        console.print(block)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


@dataclass(frozen=True, slots=True)
class _Block:
    """A sheet as it is printed; facts stand alone, tables beside each other."""

    content: RenderableType
    width: int
    stands_alone: bool


def _blocks(
    view: View, console: Console, width: int, sentences: int | None
) -> Iterator[RenderableType]:
    """Title, tables and warnings, a blank line between them; `sentences` is how wide those are."""
    blank = Text("")
    if view.title:
        yield Text(wrapped(view.title, sentences), "bold")
    blocks = [_block(sheet, console, sentences) for sheet in view.sheets if sheet.rows]
    for place, row in enumerate(_rows_that_fit(blocks, width)):
        if place or view.title:
            yield blank
        yield row[0].content if len(row) == 1 else _side_by_side(row)
    if view.warnings:
        yield blank
    for line in view.warnings:
        warning = Text(wrapped(f"warning: {line}", sentences))
        warning.stylize("bold yellow", 0, len("warning: "))
        yield warning


def _rows_that_fit(blocks: Sequence[_Block], width: int) -> Iterator[Sequence[_Block]]:
    """Neighbours side by side as long as there is room; facts stand alone."""
    row: list[_Block] = []
    used = 0
    for block in blocks:
        needed = block.width + (_GAP if row else 0)
        if row and (used + needed > width or block.stands_alone):
            yield row
            row, used = [], 0
        row.append(block)
        used += width if block.stands_alone else needed
    if row:
        yield row


def _side_by_side(blocks: Sequence[_Block]) -> Table:
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_row(*(block.content for block in blocks))
    return grid


def _block(sheet: Sheet, console: Console, sentences: int | None) -> _Block:
    """Title, rows and note. A note is as wide as its table, a title as long as it is."""
    content = _table(sheet) if sheet.headings else _facts(sheet, sentences)
    width = _width(content, console)
    parts: list[RenderableType] = [content]
    if sheet.title:
        parts.insert(0, Text(sheet.title, "bold"))
    if sheet.note:
        parts.append(Text(wrapped(sheet.note, width), "bright_black"))
    whole = Group(*parts)
    return _Block(whole, _width(whole, console), stands_alone=not sheet.headings)


def _width(content: RenderableType, console: Console) -> int:
    return Measurement.get(console, console.options, content).maximum


def _table(sheet: Sheet) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for heading in sheet.headings:
        table.add_column(
            Text(_one_line(heading.title)),
            justify="right" if heading.is_number else "left",
            no_wrap=True,
        )
    for row in sheet.rows:
        table.add_row(*map(_text, row))
    return table


def _facts(sheet: Sheet, sentences: int | None) -> Text:
    """A name and a sentence a row; what goes on in a next line stands under its beginning."""
    indent = max(cell_len(name.text) for name, _ in sheet.rows) + _BETWEEN_FACTS
    room = None if sentences is None else max(sentences - indent, _LEAST_WIDTH)
    lines = []
    for name, told in sheet.rows:
        text = wrapped(told.text, room).replace("\n", "\n" + " " * indent)
        padded = name.text + " " * (indent - cell_len(name.text))
        lines.append(Text.assemble((padded, "bright_black"), (text, _STYLES[told.mark])))
    return Text("\n").join(lines)


def _text(cell: Cell) -> Text:
    """A cell; the star of the best stands before it, so that numbers still align."""
    star = f"{Mark.BEST.value} " if cell.mark is Mark.BEST else ""
    return Text(star + _one_line(cell.text), _STYLES[cell.mark])


def _one_line(text: str) -> str:
    """A cell has one line: no text from outside makes it look like another row."""
    return visible(text, kept="")
