"""`--plot`: small plots over time, as lines of text; runs that are compared have one scale.

over 4m 42s, 2.8 s a column
tokens a pass, mean
  prefill    ▂▃▁▅▂▃▂▁▃▂▂▃                     162
  decode     ▁▂▂▂▂▁▁▁▁▁▁▁                      67
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from schedbench.cli import console
from schedbench.cli.options import OUTPUT
from schedbench.errors import UsageError
from schedbench.results.export import Format

if TYPE_CHECKING:
    import pyarrow as pa

    from schedbench.results.arrays import Ints
    from schedbench.results.report.slices import Floats, Slices

Plot = Annotated[
    bool,
    typer.Option(
        "--plot",
        help="Draw batch, KV blocks and queues over time below the table.",
        rich_help_panel=OUTPUT,
    ),
]
Draw: TypeAlias = "Callable[[Slices, pa.Table, str], Floats]"

PIPE_WIDTH = 100
LABEL, VALUE = 14, 9
NARROWEST = 20
ASCII = str.maketrans("▁▂▃▄▅▆▇█", ".:-=+*#@")
"""For terminals whose encoding has no blocks."""


@dataclass(frozen=True)
class Row:
    """One line of a plot: a column of the pass log."""

    label: str
    column: str
    is_optional: bool = False  # left out where it is zero throughout


@dataclass(frozen=True)
class Part:
    """Lines that share their meaning, and each its scale with the same line of other runs."""

    title: str
    draw: Draw
    rows: tuple[Row, ...]
    of_pool: bool = False


def _mean(slices: "Slices", passes: "pa.Table", column: str) -> "Floats":
    from schedbench.results.arrays import ints

    return slices.means(ints(passes, column))


def _highest(slices: "Slices", passes: "pa.Table", column: str) -> "Floats":
    from schedbench.results.arrays import ints

    return slices.highest(ints(passes, column))


def _sum(slices: "Slices", passes: "pa.Table", column: str) -> "Floats":
    from schedbench.results.arrays import ints

    return slices.sums(ints(passes, column)).astype(float)


PARTS = (
    Part(
        "tokens a pass, mean",
        _mean,
        (
            Row("prefill", "prefill_tokens"),
            Row("decode", "decode_tokens"),
            Row("drafts", "spec_tokens", is_optional=True),
        ),
    ),
    Part(
        "KV blocks, highest; full height is the pool",
        _highest,
        (Row("used", "kv_blocks_used"),),
        True,
    ),
    Part(
        "requests, highest",
        _highest,
        (
            Row("running", "running"),
            Row("waiting", "waiting"),
            Row("skipped", "skipped_waiting", is_optional=True),
        ),
    ),
    Part("evicted", _sum, (Row("preempted", "preempted", is_optional=True),)),
)
COLUMNS = (
    "start_ns",
    "end_ns",
    "kv_blocks_free",
    *(row.column for part in PARTS for row in part.rows),
)
"""What a plot reads of a pass log."""


def check_plot(*, plot: bool, form: Format) -> None:
    """Raises UsageError where a plot would spoil a form meant for programs."""
    if plot and form is not Format.TABLE:
        raise UsageError(f"--plot draws below the table, and --format is {form.value}: give one")


def show_plots(runs: Sequence[tuple[str, "pa.Table"]]) -> None:
    """Draw runs, by name, to stdout; no colour, so that a pipe gets the same."""
    from shutil import get_terminal_size

    width = get_terminal_size().columns if console.is_live(sys.stdout) else PIPE_WIDTH
    text = "\n".join(["", *plot_lines(runs, width)])
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.translate(ASCII)
    console.result(text)


def plot_lines(runs: Sequence[tuple[str, "pa.Table"]], width: int) -> list[str]:
    """All parts that have anything to show, over the time that the runs take together."""
    from schedbench.results.report.slices import Slices, span_of
    from schedbench.results.units import duration

    count = max(NARROWEST, width - LABEL - VALUE)
    passes = [table for _, table in runs if table.num_rows]
    if not passes:
        return ["no pass to plot"]
    times = [_times(table) for table in passes]
    span = span_of(times)
    cut = [Slices.over(*each, count, span) for each in times]
    names = [name for name, table in runs if table.num_rows]
    lines = [f"over {duration(span[1] - span[0])}, {duration(cut[0].width_ns)} a column"]
    for part in PARTS:
        rows = [line for row in part.rows for line in _lines(part, row, names, passes, cut)]
        lines += [part.title, *rows] if rows else []
    return lines


def _times(passes: "pa.Table") -> tuple["Ints", "Ints"]:
    from schedbench.results.arrays import ints

    return ints(passes, "start_ns"), ints(passes, "end_ns")


def _lines(
    part: Part,
    row: Row,
    names: Sequence[str],
    passes: Sequence["pa.Table"],
    cut: Sequence["Slices"],
) -> list[str]:
    """One line a run, in one scale; at its end the largest value."""
    from schedbench.results.units import number
    from schedbench.workloads.plot import sparkline

    values = [part.draw(each, table, row.column) for each, table in zip(cut, passes, strict=True)]
    highest = max(float(each.max()) for each in values)
    if row.is_optional and not highest:
        return []
    top = max(map(_pool, passes)) if part.of_pool else highest
    labels = [f"{row.label} {name}".rstrip() for name in names]
    return [
        f"  {label:<{LABEL - 2}}{sparkline(each, top)}{number(float(each.max())):>{VALUE}}"
        for label, each in zip(labels, values, strict=True)
    ]


def _pool(passes: "pa.Table") -> float:
    from schedbench.results.arrays import ints

    return float((ints(passes, "kv_blocks_used") + ints(passes, "kv_blocks_free")).max())
