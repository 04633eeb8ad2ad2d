"""Options that several commands share, in groups."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from schedbench.results.export import Format

TRACE, LOAD, OUTPUT = "Trace", "Load", "Output"


class TooLongAction(StrEnum):
    """What happens to prompts that can never be scheduled."""

    ERROR = "error"
    DROP = "drop"
    TRUNCATE = "truncate"


class ArrivalsMode(StrEnum):
    """When requests come."""

    OPEN = "open"
    CLOSED = "closed"
    AT_ONCE = "all-at-once"


TraceFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[TRACE]",
        help="A trace of any known format, .gz and .zst included; the shipped sample without it.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Window:
    """Which part of a trace is taken: the window first, then the limit."""

    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Leave out what arrives before, such as 10m; what is left begins at 0.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave out what arrives at this time or later, such as 1h.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = None
    limit: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Take the first N requests of the window.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = None


@dataclass(frozen=True)
class Load:
    """How requests come and how they are judged. Times are typed with a unit: 500ms, 5m."""

    too_long: Annotated[
        TooLongAction,
        typer.Option(
            help="Prompts that neither the context nor the KV pool can hold: refuse the trace, "
            "or cut them to fit; drop leaves out requests that do not fit with their output.",
            rich_help_panel=LOAD,
        ),
    ] = TooLongAction.ERROR
    arrivals: Annotated[
        ArrivalsMode,
        typer.Option(
            help="open: as recorded. closed: a row with `after` comes its think time after that "
            "row finished. all-at-once: everything at 0.",
            rich_help_panel=LOAD,
        ),
    ] = ArrivalsMode.OPEN
    think_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Think time of closed-loop rows that state none, such as 10s.",
            show_default=False,
            rich_help_panel=LOAD,
        ),
    ] = None
    events: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="JSON Lines of timed events: pause, resume, reset_prefix_cache, abort, such as "
            '{"at": "5s", "op": "pause", "state": "new"}',
            show_default=False,
            rich_help_panel=LOAD,
        ),
    ] = None
    spec_acceptance: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Chance that a draft is accepted, where the trace does not say.",
            show_default="0.7",
            rich_help_panel=LOAD,
        ),
    ] = None
    seed: Annotated[
        str,
        typer.Option(metavar="N", help="Seed of those draws.", rich_help_panel=LOAD),
    ] = "0"
    slo: Annotated[
        str | None,
        typer.Option(
            metavar="ttft:TIME,...",
            help="Bounds for goodput on ttft, tpot, itl and e2e: ttft:500ms,tpot:50ms",
            show_default=False,
            rich_help_panel=LOAD,
        ),
    ] = None
    warmup: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave requests that arrive before it out of latencies, such as 5m.",
            show_default=False,
            rich_help_panel=LOAD,
        ),
    ] = None


Speedup = Annotated[
    str,
    typer.Option(
        metavar="F",
        help="2 means twice as fast: every arrival at half its time.",
        rich_help_panel=LOAD,
    ),
]


Cost = Annotated[
    str | None,
    typer.Option(
        metavar="KIND:TIME",
        help="Logical time: linear:8ms,0.03ms (base, and for each token) or pass:1ms.",
        show_default="linear:8ms,0.03ms",
        rich_help_panel=LOAD,
    ),
]


@dataclass(frozen=True)
class Printing:
    """How the result is printed."""

    format: Annotated[
        Format,
        typer.Option(help="How to print the result.", rich_help_panel=OUTPUT),
    ] = Format.TABLE
    json: Annotated[
        bool,
        typer.Option("--json", help="Short for --format json.", rich_help_panel=OUTPUT),
    ] = False

    @property
    def chosen(self) -> Format:
        return Format.JSON if self.json else self.format


@dataclass(frozen=True)
class Storing:
    """Where the run is kept."""

    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The run folder to make; under runs/ if not given.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    no_store: Annotated[
        bool,
        typer.Option(
            "--no-store", help="Keep nothing; print the result only.", rich_help_panel=OUTPUT
        ),
    ] = False
