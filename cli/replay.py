"""`schedbench replay`: one trace, one configuration."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbench.cli import console
from schedbench.cli.configure import settle
from schedbench.cli.decisions import Decisions, Streams
from schedbench.cli.flags import Flags
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.next_steps import lines
from schedbench.cli.options import (
    ArrivalsMode,
    Load,
    Printing,
    Speedup,
    Storing,
    TraceFile,
    Window,
)
from schedbench.cli.plots import Plot, check_plot
from schedbench.cli.reading import Reading
from schedbench.cli.serving import Serving, tell_idle_gpu
from schedbench.errors import UsageError

AT_ONCE = ArrivalsMode.AT_ONCE

if TYPE_CHECKING:
    from schedbench.runner.run import ReplayOptions, Run
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace


def replay(
    *,
    flags: Flags,
    window: Window,
    load: Load,
    serving: Serving,
    decisions: Decisions,
    reading: Reading,
    streams: Streams,
    storing: Storing,
    printing: Printing,
    trace: TraceFile = None,
    speedup: Speedup = "1",
    plot: Plot = False,
) -> None:
    """Replay a trace through vLLM's scheduler: a pass log, a summary, warnings.

    schedbench replay conv.csv --max-num-seqs 128 --num-gpu-blocks 6000 --speedup 3
    """
    if storing.no_store and storing.out is not None:
        raise UsageError("--no-store keeps nothing and --out says where to keep it: give one")
    check_plot(plot=plot, form=printing.chosen)
    settings = settle(flags.given, flags.serve_args, serving.given, is_sample=trace is None)
    config, assumed = settings.config(), settings.assumed()
    options = replay_options(
        load,
        deployment=settings.deployment,
        speedup=speedup,
        assumed=[f"{option} {value}" for option, value in assumed.items()],
        scheduler=decisions.scheduler,
        policy_class=decisions.policy_class,
        short_way=not decisions.no_steady,
        outputs=streams.outputs,
        request_events=streams.request_events,
    )
    tell_if_sample(trace, "replay", settings.standing_in)
    tell_idle_gpu(settings.deployment)
    loaded = Input(trace, reading, window).load()
    run = _run(loaded, config, options, storing, by_arrivals=load.arrivals is not AT_ONCE)
    doubts = settings.deployment.warnings(config, settings.flags)
    _show(replace(run, warnings=[*doubts, *run.warnings]), assumed, printing, plot=plot)


def _run(
    trace: "Trace",
    config: "SchedulerConfig",
    options: "ReplayOptions",
    storing: Storing,
    *,
    by_arrivals: bool,
) -> "Run":
    from schedbench.cli.progress import ReplayProgress
    from schedbench.runner.run import replay as run_replay

    with ReplayProgress(trace.num_requests, by_arrivals) as progress:
        if options.deployment.is_torch:
            progress.line.show("loading the model, checking its attention, warming up")
        return run_replay(
            trace,
            config,
            options=options,
            out=storing.out,
            store=not storing.no_store,
            progress=progress,
        )


def _show(run: "Run", assumed: dict[str, str], printing: Printing, *, plot: bool) -> None:
    from schedbench.cli.plots import show_plots
    from schedbench.cli.print_view import print_view
    from schedbench.results.summary_sheets import run_view

    manifest = run.manifest
    title = (
        f"{Path(manifest['trace']['path'] or 'trace').name} · {manifest['release']}, "
        f"{manifest['scheduling']} scheduling"
    )
    about = _about(manifest)
    view = run_view(title, run.summary, warnings=run.warnings, about=about, assumed=assumed)
    view = replace(view, data={**view.data, "release": manifest["release"]})
    print_view(view, printing.chosen)
    if plot:
        show_plots([("", run.passes)])
    if run.path is not None:
        for line in lines(run, manifest["command_line"][2:]):
            console.plain(line)


def _about(manifest: dict[str, Any]) -> dict[str, str]:
    """What says how long passes take, and whose decisions they are if not vLLM's."""
    told = manifest["time"]["description"]
    about = {"time": f"logical, {told}" if manifest["time"]["source"] == "clock" else told}
    if manifest["policy_class"] is not None:
        about["policy"] = manifest["policy_class"]
    if manifest["engine"] != "schedbench":
        about["scheduler"] = manifest["engine"]
    return about
