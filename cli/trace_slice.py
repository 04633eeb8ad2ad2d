"""`schedbench trace slice`: a part of a trace, faster, thinner or several times over."""

from typing import Annotated

import typer

from schedbench.bounds import PART, SEED, SOME
from schedbench.cli.inputs import Input
from schedbench.cli.options import TRACE, Printing, Window
from schedbench.cli.reading import Reading
from schedbench.cli.trace_files import Target, TraceToRead
from schedbench.cli.values import parse_count, parse_number, parse_optional_count
from schedbench.errors import UsageError

Speedup = Annotated[
    str,
    typer.Option(
        metavar="F",
        help="2 means twice as fast: every arrival at half its time.",
        rich_help_panel=TRACE,
    ),
]
Thin = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Keep each session, or row without one, with this chance, such as 0.5.",
        show_default=False,
        rich_help_panel=TRACE,
    ),
]
Seed = Annotated[
    str | None,
    typer.Option(metavar="N", help="Seed of --thin.", show_default="0", rich_help_panel=TRACE),
]
Repeat = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="N times over, each round with ids and prefixes of its own.",
        show_default=False,
        rich_help_panel=TRACE,
    ),
]


def slice_(
    *,
    trace: TraceToRead,
    window: Window,
    thin: Thin = None,
    seed: Seed = None,
    speedup: Speedup = "1",
    repeat: Repeat = None,
    reading: Reading,
    target: Target,
    printing: Printing,
) -> None:
    """Cut a trace: a window of time, then the first N, thinned, scaled and repeated, in that order.

    schedbench trace slice conv.parquet --from 10m --to 20m --speedup 2 -o busy.parquet
    """
    from schedbench.cli.print_view import print_view
    from schedbench.cli.trace_sheets import written_view
    from schedbench.workloads import repeat as repeating
    from schedbench.workloads import transform

    first = parse_optional_count(seed, "--seed", SEED)
    if thin is None and first is not None:
        raise UsageError(
            f"--seed {first} would have no effect without --thin; give that too, or leave it out"
        )
    target.check()
    cut = Input(trace, reading, window).load()
    if thin is not None:
        cut = transform.thin(cut, parse_number(thin, "--thin", PART), 0 if first is None else first)
    if transform.parse_speedup(speedup) != 1:
        cut = transform.scale(cut, speedup)
    if repeat is not None:
        cut = repeating.repeat(cut, parse_count(repeat, "--repeat", SOME))
    target.write(cut)
    print_view(written_view(cut, target.file), printing.chosen)
