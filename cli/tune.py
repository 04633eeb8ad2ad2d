"""`schedbench tune`: a search for the best flags of a trace."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli.again import refuse_what_is_none
from schedbench.cli.configure import Settings, settle
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.jobs import Jobs
from schedbench.cli.options import OUTPUT, Load, Printing, Speedup, Storing, TraceFile, Window
from schedbench.cli.reading import Reading
from schedbench.cli.release import release_of
from schedbench.cli.serving import Serving, tell_idle_gpu
from schedbench.cli.tune_space import FlagSpaces
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.results.goals import Goal
    from schedbench.runner.run import ReplayOptions
    from schedbench.runner.sweep import Plan
    from schedbench.runner.tune.space import Choices, Range
    from schedbench.workloads.trace import Trace

SEARCH = "Search"


class GoalName(StrEnum):
    """What is searched for."""

    GOODPUT = "goodput"
    TTFT = "ttft"
    THROUGHPUT = "throughput"
    MAX_RATE = "max-rate"

    @property
    def goal(self) -> "Goal":
        from schedbench.results.goals import Goal

        return Goal[self.name]


@dataclass(frozen=True)
class Searching:
    """What is searched for, and for how long."""

    goal: Annotated[
        GoalName,
        typer.Option(
            help="goodput: most requests/s within --slo. ttft: least p99. throughput: most output "
            "tokens/s. max-rate: the highest --speedup that holds --slo, flags as given.",
            rich_help_panel=SEARCH,
        ),
    ] = GoalName.GOODPUT
    replays: Annotated[
        str,
        typer.Option(metavar="N", help="Points to replay.", rich_help_panel=SEARCH),
    ] = "64"
    search_seed: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="Equal seeds search alike, on any machine.",
            rich_help_panel=SEARCH,
        ),
    ] = "0"
    attain: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Of max-rate: the share of requests that must be within --slo.",
            show_default="0.99",
            rich_help_panel=SEARCH,
        ),
    ] = None
    jobs: Jobs = None
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Take up a search that was cut short, or go on with one for longer (--replays). "
            "The folder has the trace and the flags.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None


@dataclass(frozen=True)
class Task:
    """What was typed, settled."""

    trace: "Trace"
    space: "dict[str, Range | Choices]"
    settings: Settings
    options: "ReplayOptions"
    searching: Searching
    storing: Storing

    @property
    def plan(self) -> "Plan":
        from schedbench.runner.sweep import Plan

        return Plan({}, self.settings.flags, self.options)

    @property
    def release(self) -> str:
        from schedbench.runner.tune.space import Choices

        varied = {k: each.values for k, each in self.space.items() if isinstance(each, Choices)}
        return release_of(self.settings.flags, varied)

    @property
    def name(self) -> str:
        return f"{Path(self.trace.path or 'trace').name}, {self.trace.num_requests:,} requests"


def tune(
    *,
    trace: TraceFile = None,
    searching: Searching,
    flags: FlagSpaces,
    window: Window,
    speedup: Speedup = "1",
    load: Load,
    serving: Serving,
    reading: Reading,
    storing: Storing,
    printing: Printing,
) -> None:
    """Search for the best flags of a trace: the winner, the front, what each flag mattered.

    schedbench tune conv.csv --slo ttft:500ms,tpot:50ms --max-num-seqs 16:1024

    schedbench tune conv.csv --goal max-rate --slo ttft:500ms --max-num-seqs 256

    A flag takes a range to search in (16:1024), a list (64,128), on,off, or one value.
    """
    from schedbench.cli.tune_run import find_rate, search_flags

    refuse_what_is_none(searching.resume, "tune")
    if load.slo is None and searching.goal in (GoalName.GOODPUT, GoalName.MAX_RATE):
        raise UsageError(
            f"--goal {searching.goal.value} is about an SLO: give one, such as --slo "
            "ttft:500ms,tpot:50ms"
        )
    if searching.attain is not None and searching.goal is not GoalName.MAX_RATE:
        raise UsageError(
            f"--attain {searching.attain} is of --goal max-rate and would have no effect with "
            f"--goal {searching.goal.value}; leave it out"
        )
    if sum((storing.no_store, storing.out is not None, searching.resume is not None)) > 1:
        raise UsageError("--out, --resume and --no-store exclude each other: give one")
    space, fixed = flags.sorted_out()
    settings = settle(
        fixed, flags.serve_args, serving.given, is_sample=trace is None, axes=dict(space)
    )
    options = replay_options(load, speedup=speedup, deployment=settings.deployment)
    tell_if_sample(trace, "tune", settings.standing_in)
    tell_idle_gpu(settings.deployment)
    loaded = Input(trace, reading, window).load()
    task = Task(loaded, space, settings, options, searching, storing)
    (find_rate if searching.goal is GoalName.MAX_RATE else search_flags)(task, printing)
