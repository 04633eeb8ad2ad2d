"""What made two runs of different releases part: looked for, and shown while it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedbench.cli.jobs import Jobs, workers_of
from schedbench.cli.options import OUTPUT
from schedbench.errors import SchedbenchError

if TYPE_CHECKING:
    from schedbench.results.cause import Cause
    from schedbench.results.sheet import Sheet
    from schedbench.results.stored_run import StoredRun
    from schedbench.runner.api import Runner
    from schedbench.runner.run import ReplayOptions
    from schedbench.runner.sweep import Outcome, Plan
    from schedbench.runner.upgrade import Side
    from schedbench.workloads.trace import Trace

VERSION = "vllm_version"

WithCause = Annotated[
    bool,
    typer.Option(
        "--cause/--no-cause",
        help="Between releases of vLLM: find the behaviour that made them part, by replays with "
        "one switched at a time.",
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True)
class Causing:
    """How the cause of a difference between releases is looked for."""

    cause: WithCause = True
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where the runs' trace lies now, if it was moved; for --cause.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    jobs: Jobs = None

    def __post_init__(self) -> None:
        """Raises UsageError, also where no replay is needed."""
        workers_of(self.jobs)

    @property
    def workers(self) -> int | None:
        return workers_of(self.jobs)


def causes_between(runs: Sequence["StoredRun"], causing: Causing) -> list["Cause | str | None"]:
    """For each run but the first: what made it part, or why that was not looked for.

    None where the releases are the same, or nothing was asked for.
    """
    if not causing.cause:
        return [None for _ in runs[1:]]
    return [_between(runs[0], run, causing) for run in runs[1:]]


def _between(first: "StoredRun", other: "StoredRun", causing: Causing) -> "Cause | str | None":
    from schedbench.runner.explain.rerun import rerun_of, same_times
    from schedbench.runner.upgrade import Side

    if first.release == other.release:
        return None
    try:
        a, b = (rerun_of(run, causing.trace) for run in (first, other))
    except SchedbenchError as error:
        return str(error)
    if _decisive(a.options) != _decisive(b.options):
        return "the runs differ in more than flags of the scheduler"
    runner = same_times(first)
    if runner is None:
        return "the times of the first run fit no other passes: they were measured or recorded"
    sides = Side(a.config, first.passes()), Side(b.config, other.passes())
    return _looked_for(a.trace, sides, a.options, runner, causing.workers)


def _decisive(options: "ReplayOptions") -> "ReplayOptions":
    return replace(options, command_line=[], assumed=())


def _looked_for(
    trace: "Trace",
    sides: "tuple[Side, Side]",
    options: "ReplayOptions",
    runner: "Runner | None",
    workers: int | None,
) -> "Cause | None":
    from schedbench.cli.progress import LiveLine
    from schedbench.runner.upgrade import find_cause

    line = LiveLine()
    found = find_cause(
        trace,
        sides[0],
        sides[1],
        options,
        runner,
        workers=workers,
        told=lambda done, of: line.show(f"cause: {done} of {of} replays with one thing switched"),
    )
    line.clear()
    return found


@dataclass(frozen=True)
class Upgrade:
    """Two points of a sweep that differ in the release alone."""

    first: "Outcome"
    other: "Outcome"

    @property
    def releases(self) -> list[str]:
        return [str(each.point[VERSION]) for each in (self.first, self.other)]

    @property
    def apart(self) -> str:
        """Both releases, and where in the grid they stand."""
        rest = {k: v for k, v in self.first.point.items() if k != VERSION}
        at = f" at {' '.join(f'{name}={value}' for name, value in rest.items())}" if rest else ""
        return f"{' and '.join(self.releases)}{at}"


def upgrades(plan: "Plan", outcomes: Sequence["Outcome"]) -> list[Upgrade]:
    """Points of each further release beside those of the first, where both have a stored run."""
    first, *_ = plan.axes.get(VERSION, [None])
    known = {_rest(each): each for each in outcomes if each.point.get(VERSION) == first}
    pairs = [
        Upgrade(known[_rest(each)], each)
        for each in outcomes
        if each.point.get(VERSION, first) != first and _rest(each) in known
    ]
    return [each for each in pairs if _is_whole(each.first) and _is_whole(each.other)]


def _rest(outcome: "Outcome") -> tuple[tuple[str, str], ...]:
    return tuple((name, str(v)) for name, v in outcome.point.items() if name != VERSION)


def _is_whole(outcome: "Outcome") -> bool:
    return outcome.status == "complete" and isinstance(outcome.path, Path)


def upgrade_sheets(
    trace: "Trace",
    plan: "Plan",
    pairs: Sequence[Upgrade],
    *,
    looks: bool,
    workers: int | None,
) -> tuple[list["Sheet"], dict[int, dict[str, Any]]]:
    """Where each pair parts, why, and what changed; the metrics of a single pair, side by side.

    Beside the sheets: all of it for programs, by the index of the later release's point.
    """
    from schedbench.results.compare import compare
    from schedbench.results.comparison_sheets import comparison_data, metrics_sheet, parting_sheets
    from schedbench.results.stored_run import StoredRun

    sheets: list[Sheet] = []
    data: dict[int, dict[str, Any]] = {}
    for pair in pairs:
        runs = [StoredRun.open(each.path) for each in (pair.first, pair.other) if each.path]
        comparison = compare(runs)
        cause = _cause_of(trace, plan, pair, runs, workers) if looks else None
        if len(pairs) == 1 and any((*comparison.by_decisions, *comparison.by_time_only)):
            sheets.append(metrics_sheet(comparison.differences, pair.releases))
        sheets += parting_sheets(comparison, 0, cause, f"A and B: {pair.apart}")
        data[pair.other.index] = comparison_data(comparison, (), [cause])
    return sheets, data


def _cause_of(
    trace: "Trace", plan: "Plan", pair: Upgrade, runs: list["StoredRun"], workers: int | None
) -> "Cause | None":
    from schedbench.runner.sweep import settled
    from schedbench.runner.upgrade import Side

    first, options = settled(pair.first.point, plan)
    other, _ = settled(pair.other.point, plan)
    sides = Side(first, runs[0].passes()), Side(other, runs[1].passes())
    return _looked_for(trace, sides, options, None, workers)
