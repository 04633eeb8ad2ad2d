"""`schedbench compare`: stored runs side by side."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli.causes import Causing, causes_between
from schedbench.cli.options import OUTPUT, Printing
from schedbench.cli.plots import COLUMNS, Plot, check_plot
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.results.sheet import View
    from schedbench.results.stored_run import StoredRun


class By(StrEnum):
    """Columns that requests can be split by."""

    PRIORITY = "priority"
    CLIENT = "client"
    LORA = "lora"
    GROUP = "group"


Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[RUN]...",
        help="Run folders; the others are held against the first. With --by, one is enough, and "
        "none means the newest under runs/.",
        show_default=False,
    ),
]
SplitBy = Annotated[
    By | None,
    typer.Option(
        help="Split requests by this column of the trace, instead of run against run: who got "
        "what, and how fairly (Jain's index: 1 is equal).",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
AcrossTraces = Annotated[
    bool,
    typer.Option(
        "--across-traces",
        help="Allow runs of different traces; their passes and requests do not correspond.",
        rich_help_panel=OUTPUT,
    ),
]


def compare(
    *,
    runs: Runs = None,
    by: SplitBy = None,
    across_traces: AcrossTraces = False,
    causing: Causing,
    printing: Printing,
    plot: Plot = False,
) -> None:
    """Compare stored runs: every metric, the first pass that differs, who won and who lost.

    schedbench compare runs/A runs/B

    schedbench compare runs/A --by client

    Between runs of different releases of vLLM the behaviour that made them part is looked for, by
    replays with one switched at a time.
    """
    from schedbench.cli.plots import show_plots
    from schedbench.cli.print_view import print_view
    from schedbench.results.stored_run import StoredRun, newest

    check_plot(plot=plot, form=printing.chosen)
    if by is not None:
        opened = [StoredRun.open(run) for run in runs or []] or [newest()]
        stored = [run.of_a_replay("--by") for run in opened]
        if plot:
            raise UsageError("--plot draws run against run, and --by splits requests: give one")
        print_view(_split_view(stored, by.value), printing.chosen)
        return
    if len(runs or []) < 2:  # noqa: PLR2004 - one run has nothing to stand beside
        raise UsageError(
            "compare needs two runs or more, such as `schedbench compare runs/A runs/B`; to "
            "split a single run, give --by client"
        )
    stored = [StoredRun.open(run) for run in runs or []]
    print_view(_view(stored, causing, across_traces=across_traces), printing.chosen)
    if plot:
        show_plots([(chr(ord("A") + at), run.passes(COLUMNS)) for at, run in enumerate(stored)])


def _view(runs: list["StoredRun"], causing: Causing, *, across_traces: bool) -> "View":
    from schedbench.results.compare import compare as compare_runs
    from schedbench.results.comparison_sheets import comparison_view
    from schedbench.results.warnings import warn_sweep
    from schedbench.results.winners import COMPARED, winners_and_losers

    comparison = compare_runs(runs, across_traces=across_traces)
    told = all(run.recording is None for run in runs)  # a server does not tell what bound it
    warnings = warn_sweep([run.summary for run in runs]) if told else []
    if len({run.trace_digest for run in runs}) > 1:
        return replace(comparison_view(comparison), warnings=tuple(warnings))
    tables = [run.requests() for run in runs]
    changes = [
        [winners_and_losers(tables[0], table, metric) for metric in COMPARED]
        for table in tables[1:]
    ]
    view = comparison_view(comparison, changes, causes_between(runs, causing))
    return replace(view, warnings=tuple(warnings))


def _split_view(runs: list["StoredRun"], by: str) -> "View":
    from schedbench.results.fairness import split
    from schedbench.results.split_sheet import split_view

    parts = [
        split(
            run.requests(),
            by,
            slo=run.manifest.get("slo_ns"),
            warmup_ns=run.manifest.get("warmup_ns") or 0,
            end_ns=run.summary["makespan_ns"],
        )
        for run in runs
    ]
    return split_view(by, [run.name for run in runs], parts)
