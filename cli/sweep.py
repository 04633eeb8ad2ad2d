"""`schedbench sweep`: one trace, a grid of configurations, one table."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedbench.cli.again import refuse_what_is_none
from schedbench.cli.causes import WithCause
from schedbench.cli.configure import settle
from schedbench.cli.decisions import DecisionLists
from schedbench.cli.executing import Executing
from schedbench.cli.flag_lists import FlagLists
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.jobs import workers_of
from schedbench.cli.options import (
    LOAD,
    OUTPUT,
    Load,
    Printing,
    Storing,
    TraceFile,
    Window,
)
from schedbench.cli.ranges import parse_speedups
from schedbench.cli.reading import Reading
from schedbench.cli.serving import ServingLists, tell_idle_gpu
from schedbench.cli.sweep_end import label_of, show, tell_folder
from schedbench.cli.values import show_value
from schedbench.errors import StallError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.cli.configure import Settings
    from schedbench.runner.sweep import Outcome, Plan
    from schedbench.runner.workers import Pool
    from schedbench.workloads.trace import Trace

Speedups = Annotated[
    str,
    typer.Option(
        "--speedup",
        metavar="F,...",
        help="2 means twice as fast: every arrival at half its time.",
        rich_help_panel=LOAD,
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Take up a sweep that was cut short: points that lie complete there are reused. The "
        "folder has the trace and the flags.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


def sweep(
    *,
    trace: TraceFile = None,
    flags: FlagLists,
    window: Window,
    speedup: Speedups = "1",
    load: Load,
    serving: ServingLists,
    decisions: DecisionLists,
    reading: Reading,
    storing: Storing,
    resume: Resume = None,
    cause: WithCause = True,
    printing: Printing,
    executing: Executing,
) -> None:
    """Replay a trace at every point of a grid, on all cores, and compare the points.

    Any flag takes a list (64,128,256), a range (64:256:+64, 2048:16384:x2) or on,off.

    schedbench sweep conv.csv --max-num-seqs 32:256:x2 --num-gpu-blocks 2000,6000

    Points without a result have a row, a reason, and are counted in a warning at the end. Exit code
    3 means that no point finished; 130 that it was interrupted, with what is there shown.
    """
    refuse_what_is_none(resume, "sweep")
    executing.check()
    make_pool = executing.pool()
    options = {
        **flags.given,
        "speedup": parse_speedups(speedup),
        **decisions.given,
        **serving.given,
    }
    plan, settings = _plan(
        options, flags.serve_args, load, is_sample=trace is None, no_steady=decisions.no_steady
    )
    total = len(plan.points())
    tell_if_sample(trace, "sweep", settings.standing_in)
    tell_idle_gpu(settings.deployment)
    loaded = Input(trace, reading, window).load()
    workers = workers_of(executing.jobs, is_torch=settings.deployment.is_torch)
    folder = _folder(storing, resume, loaded, plan)
    outcomes, was_interrupted = _run(
        loaded,
        plan,
        executing.seen(folder),
        workers,
        make_pool,
    )
    show(loaded, plan, outcomes, printing, causes=cause, workers=workers)
    tell_folder(folder, outcomes, total - len(outcomes))
    if was_interrupted:
        raise KeyboardInterrupt
    if not any(outcome.status == "complete" for outcome in outcomes):
        raise StallError("no point of the sweep finished; the reasons stand above")


def _axes(options: dict[str, list[Any]]) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Options with several values, and the one value of the others."""
    axes = {name: values for name, values in options.items() if len(values) > 1}
    if not axes:
        raise UsageError(_why_no_axis(options))
    return axes, {name: values[0] for name, values in options.items() if len(values) == 1}


def _why_no_axis(options: dict[str, list[Any]]) -> str:
    """What has one value is named, with a way to give it more, and the command that takes one."""
    needed = "a sweep needs a flag with several values, such as"
    typed = {
        f"--{label_of(name)}": show_value(values[0])
        for name, values in options.items()
        if values and (name, values) != ("speedup", ["1"])
    }
    if not typed:
        return f"{needed} --max-num-seqs 64,128,256 or --max-num-batched-tokens 2048:16384:x2"
    single = " ".join(f"{name} {value}" for name, value in typed.items())
    return (
        f"{needed} --max-num-seqs 64,128,256, and each here has one: {single}. Give one of them "
        "more, or replay that with `schedbench replay TRACE`, which takes one value each"
    )


def _plan(
    options: dict[str, list[Any]],
    serve_args: str | None,
    load: Load,
    *,
    is_sample: bool,
    no_steady: bool,
) -> tuple["Plan", "Settings"]:
    from schedbench.runner.deployment import SERVING_AXES
    from schedbench.runner.sweep import OPTION_AXES, Plan

    axes, fixed = _axes(options)
    more = {name: fixed.pop(name) for name in OPTION_AXES if name in fixed}
    serving = {name: fixed.pop(name) for name in SERVING_AXES if name in fixed}
    settings = settle(fixed, serve_args, serving, is_sample=is_sample, axes=axes)
    assumed = settings.assumed(*axes)
    replayed = replay_options(
        load,
        deployment=settings.deployment,
        assumed=[f"{option} {value}" for option, value in assumed.items()],
        short_way=not no_steady,
        **more,
    )
    return Plan(axes, settings.flags, replayed), settings


def _folder(storing: Storing, resume: Path | None, trace: "Trace", plan: "Plan") -> Path | None:
    from schedbench.runner.sweep import fixed_of
    from schedbench.runner.sweep_folder import new_sweep_folder, resumed_sweep_folder

    if sum((storing.no_store, storing.out is not None, resume is not None)) > 1:
        raise UsageError("--out, --resume and --no-store exclude each other: give one")
    if storing.no_store:
        return None
    fixed = fixed_of(plan)
    if resume is not None:
        return resumed_sweep_folder(trace, resume, fixed)
    line = list(plan.options.command_line)
    about = {"axes": dict(plan.axes), "fixed": fixed, "command_line": line}
    return new_sweep_folder(trace, about, storing.out)


def _run(
    trace: "Trace",
    plan: "Plan",
    folder: Path | None,
    workers: int | None,
    make_pool: "Callable[[Trace, int], Pool]",
) -> tuple[list["Outcome"], bool]:
    """The outcomes in the grid's order, and whether the user stopped it."""
    from schedbench.cli.sweep_live import SweepProgress
    from schedbench.runner.sweep import run_sweep
    from schedbench.runner.workers import Workers, cores

    outcomes: list[Outcome] = []
    interrupted = False
    at_a_time = (workers or cores()) if make_pool is Workers else workers
    with SweepProgress(plan, at_a_time) as progress:
        try:
            running = run_sweep(
                trace,
                plan,
                out=folder,
                workers=workers,
                make_pool=make_pool,
            )
            with closing(running) as coming:
                for outcome in coming:
                    outcomes.append(outcome)
                    progress.add(outcome)
        except KeyboardInterrupt:
            interrupted = True
    return sorted(outcomes, key=lambda each: each.index), interrupted
