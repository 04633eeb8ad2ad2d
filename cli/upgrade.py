"""`schedbench upgrade`: what each release on the way from one to another changes on a trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli.causes import VERSION, WithCause
from schedbench.cli.configure import Settings, settle
from schedbench.cli.decisions import Decisions
from schedbench.cli.flags import Flags
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.jobs import Jobs, workers_of
from schedbench.cli.options import TRACE, Load, Printing, Speedup, TraceFile, Window
from schedbench.cli.reading import Reading
from schedbench.cli.release import release_set
from schedbench.cli.serving import Serving
from schedbench.errors import SchedbenchError, StallError, UsageError
from schedbench.sched.config import RELEASES, SchedulerConfig, release_text

if TYPE_CHECKING:
    from schedbench.results.upgrade_sheet import ReleaseRow
    from schedbench.runner.run import ReplayOptions
    from schedbench.workloads.trace import Trace

PANEL = "Releases"
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RELEASE",
        help="The release of vLLM that runs now; the one that is followed if left out.",
        show_default=SchedulerConfig.vllm_version,
        rich_help_panel=PANEL,
    ),
]
To = Annotated[
    str,
    typer.Option(
        metavar="RELEASE",
        help="The release to go to; each in between is looked at.",
        rich_help_panel=PANEL,
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Take the first N requests.",
        show_default=False,
        rich_help_panel=TRACE,
    ),
]


def upgrade(
    *,
    trace: TraceFile = None,
    from_: From = None,
    to: To = RELEASES[-1],
    limit: Limit = None,
    cause: WithCause = True,
    flags: Flags,
    load: Load,
    speedup: Speedup = "1",
    serving: Serving,
    decisions: Decisions,
    reading: Reading,
    jobs: Jobs = None,
    printing: Printing,
) -> None:
    """Say which release of vLLM changes a pass of a trace, because of what, and what comes of it.

    schedbench upgrade conv.csv --from 0.29.0 --to 0.32.0 --num-gpu-blocks 6000

    Every release on the way is replayed, those with the same behaviours once. Of each that parts
    from the one before, the behaviour that makes it is looked for, and the flag that undoes it.
    Exit code 3 means that no release finished.
    """
    releases = _releases(from_, to)
    if {VERSION, "behaviours"} & flags.given.keys():
        raise UsageError(
            "upgrade goes through whole releases, from --from to --to: leave out --vllm-version "
            "and --behaviour"
        )
    settings = settle(
        flags.given,
        flags.serve_args,
        serving.given,
        is_sample=trace is None,
        axes={VERSION: releases},
    )
    _refuse_measured(settings)
    options = replay_options(
        load,
        deployment=settings.deployment,
        speedup=speedup,
        scheduler=decisions.scheduler,
        policy_class=decisions.policy_class,
        short_way=not decisions.no_steady,
    )
    workers = workers_of(jobs)
    tell_if_sample(trace, "upgrade", settings.standing_in)
    loaded = Input(trace, reading, Window(limit=limit)).load()
    rows = _rows(loaded, settings, options, releases, workers=workers, looks=cause)
    _show(loaded, settings, rows, printing)
    if all(row.summary is None for row in rows):
        raise StallError("no release finished; the reasons stand above")


def _releases(from_: str | None, to: str) -> list[str]:
    """Those from one to the other. Raises UsageError for one that is not modelled or no step."""
    first = from_ or release_set().get(VERSION, SchedulerConfig.vllm_version)
    for option, release in (("--from", first), ("--to", to)):
        try:
            release_text(release)
        except UsageError as error:
            raise UsageError(str(error).replace("--vllm-version", option, 1)) from error
    start, end = RELEASES.index(first), RELEASES.index(to)
    if start >= end:
        raise UsageError(
            f"--from {first} --to {to} goes through no release: name an older one first, of "
            f"{', '.join(RELEASES)}"
        )
    return list(RELEASES[start : end + 1])


def _refuse_measured(settings: Settings) -> None:
    """Raises UsageError where times would differ by themselves, or fit one release's passes."""
    if settings.deployment.is_torch:
        raise UsageError(
            "--runner torch: measured times differ from run to run, so no release could be held "
            "against another; leave it out, or give --profile with a model fitted to them"
        )
    if settings.deployment.recorded is not None:
        raise UsageError(
            "--recorded: recorded times fit the passes of one release; leave it out, or give "
            "--profile with a model fitted to them"
        )


def _configs(settings: Settings, releases: list[str]) -> dict[str, SchedulerConfig | str]:
    """The flags as each release takes them, or why it refuses them."""
    found: dict[str, SchedulerConfig | str] = {}
    for release in releases:
        try:
            found[release] = settings.deployment.config({**settings.flags, VERSION: release})
        except SchedbenchError as error:
            found[release] = str(error)
    return found


def _rows(
    trace: "Trace",
    settings: Settings,
    options: "ReplayOptions",
    releases: list[str],
    *,
    workers: int | None,
    looks: bool,
) -> list["ReleaseRow"]:
    from schedbench.cli.progress import LiveLine
    from schedbench.runner.upgrade_steps import upgrade_steps

    configs = _configs(settings, releases)
    if all(isinstance(each, str) for each in configs.values()):
        raise UsageError(str(configs[releases[-1]]))
    line = LiveLine()
    try:
        return upgrade_steps(trace, configs, options, workers=workers, told=line.show, looks=looks)
    finally:
        line.clear()


def _show(trace: "Trace", settings: Settings, rows: list["ReleaseRow"], printing: Printing) -> None:
    from schedbench.cli import console
    from schedbench.cli.print_view import print_view
    from schedbench.results.upgrade_sheet import upgrade_view
    from schedbench.results.warnings import warn_sweep

    first, *_, last = rows
    title = (
        f"{Path(trace.path or 'trace').name}, {trace.num_requests:,} requests · "
        f"vLLM {first.release} to {last.release}"
    )
    warnings = warn_sweep([row.summary for row in rows if row.summary is not None])
    print_view(upgrade_view(rows, title, warnings), printing.chosen)
    console.note(f"time: {settings.deployment.description}")
    if assumed := settings.assumed():
        console.note(f"assumed: {'  '.join(f'{name} {value}' for name, value in assumed.items())}")
