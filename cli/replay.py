"""`schedbench replay`: one trace, one configuration."""

from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.cli import console
from schedbench.cli.configure import settle
from schedbench.cli.decisions import Decisions, Streams
from schedbench.cli.flags import Flags
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.options import (
    ArrivalsMode,
    Cost,
    Load,
    Printing,
    Speedup,
    Storing,
    TraceFile,
    Window,
)
from schedbench.cli.plots import Plot, check_plot
from schedbench.cli.reading import Reading
from schedbench.cli.values import shown_option
from schedbench.errors import UsageError

LOOSENED_BY = {
    "kv_blocks": "num_gpu_blocks",
    "seats": "max_num_seqs",
    "budget": "max_num_batched_tokens",
}
"""The flag to raise for each limit that can bind."""

if TYPE_CHECKING:
    from schedbench.cli.progress import ReplayProgress
    from schedbench.runner.run import Run
    from schedbench.workloads.trace import Trace


def replay(
    *,
    flags: Flags,
    window: Window,
    load: Load,
    decisions: Decisions,
    reading: Reading,
    streams: Streams,
    storing: Storing,
    printing: Printing,
    trace: TraceFile = None,
    speedup: Speedup = "1",
    cost: Cost = None,
    plot: Plot = False,
) -> None:
    """Replay a trace through vLLM's scheduler: a pass log, a summary, warnings.

    schedbench replay conv.csv --max-num-seqs 128 --num-gpu-blocks 6000 --speedup 3
    """
    if storing.no_store and storing.out is not None:
        raise UsageError("--no-store keeps nothing and --out says where to keep it: give one")
    check_plot(plot=plot, form=printing.chosen)
    from schedbench.runner.clock import parse_cost
    from schedbench.runner.run import DEFAULT_COST
    from schedbench.runner.run import replay as run_replay

    settings = settle(flags.given, flags.serve_args)
    config, runner = settings.config(), parse_cost(cost or DEFAULT_COST)
    assumed = settings.assumed() | ({} if cost else {"--cost": DEFAULT_COST})
    options = replay_options(
        load,
        speedup=speedup,
        assumed=[f"{option} {value}" for option, value in assumed.items()],
        scheduler=decisions.scheduler,
        policy_class=decisions.policy_class,
        short_way=not decisions.no_steady,
        outputs=streams.outputs,
        request_events=streams.request_events,
    )
    tell_if_sample(trace, "replay")
    loaded = Input(trace, reading, window).load()
    with _progress(loaded, load) as progress:
        run = run_replay(
            loaded,
            config,
            runner,
            options=options,
            out=storing.out,
            store=not storing.no_store,
            progress=progress,
        )
    _show(run, trace, assumed, printing, plot=plot)


def _progress(trace: "Trace", load: Load) -> "ReplayProgress":
    from schedbench.cli.progress import ReplayProgress

    return ReplayProgress(trace.num_requests, load.arrivals is not ArrivalsMode.AT_ONCE)


def _show(
    run: "Run",
    named: str | None,
    assumed: dict[str, str],
    printing: Printing,
    *,
    plot: bool,
) -> None:
    from schedbench.cli.plots import show_plots
    from schedbench.cli.print_view import print_view
    from schedbench.results.summary_sheets import run_view

    manifest = run.manifest
    title = " · ".join(
        [
            Path(manifest["trace"]["path"] or "trace").name,
            f"vLLM {manifest['vllm_version']}, {manifest['scheduling']} scheduling",
            manifest["time"]["description"],
        ]
    )
    view = run_view(title, run.summary, warnings=run.warnings, assumed=assumed)
    print_view(view, printing.chosen)
    if plot:
        show_plots([("", run.passes)])
    if run.path is not None:
        console.plain(f"kept in {run.path}; next: {next_command(run, named)}")


def next_command(run: "Run", named: str | None) -> str:
    """A sweep over the flag that held the replay back for longest, or more load if none did."""
    held = [label for label in run.summary["binding_limit"] if label in LOOSENED_BY]
    values = "--speedup 1,2,4,8"
    if held:
        name = LOOSENED_BY[held[0]]
        now = run.manifest["scheduler"][name]
        values = f"{shown_option(name)} {now},{2 * now},{4 * now}"
    return " ".join(["schedbench", "sweep", *([named] if named else []), values])
