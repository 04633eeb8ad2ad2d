"""`schedbench gate`: a replay against a baseline, for CI."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli import console
from schedbench.cli.configure import Settings, settle
from schedbench.cli.decisions import Decisions
from schedbench.cli.flags import Flags
from schedbench.cli.inputs import Input, replay_options, tell_if_sample
from schedbench.cli.options import OUTPUT, Load, Printing, Speedup, TraceFile, Window
from schedbench.cli.reading import Reading
from schedbench.cli.release import named
from schedbench.cli.serving import Serving
from schedbench.errors import OutputError, RunStoreError, SchedbenchError, UsageError

if TYPE_CHECKING:
    from typing import Any

    from schedbench.results.gate import GateResult
    from schedbench.results.sheet import View
    from schedbench.runner.gate import Setup
    from schedbench.runner.run import Run
    from schedbench.workloads.trace import Trace

GATE = "Gate"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class Gating:
    """The baseline, and where to say what came of it."""

    baseline: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The baseline; flags that are not given are those that it was made with.",
            rich_help_panel=GATE,
        ),
    ]
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Write the baseline anew, after a look at it.", rich_help_panel=GATE
        ),
    ] = False
    keep_passes: Annotated[
        bool,
        typer.Option(
            "--keep-passes",
            help="With --update: keep the pass log beside it, so that a failure names the pass.",
            rich_help_panel=GATE,
        ),
    ] = False
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write JUnit XML, a test case a check.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write Markdown; it goes to $GITHUB_STEP_SUMMARY too where that is set.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None


def gate(
    *,
    trace: TraceFile = None,
    gating: Gating,
    flags: Flags,
    window: Window,
    load: Load,
    serving: Serving,
    decisions: Decisions,
    reading: Reading,
    printing: Printing,
    speedup: Speedup = "1",
) -> None:
    """Hold a replay against a baseline: counters exactly, times within a tolerance.

    schedbench gate conv.csv --baseline baselines/conv.json --max-num-seqs 128 --update

    schedbench gate conv.csv --baseline baselines/conv.json --junit gate.xml

    Exit code 1 if something differs; what, and the first pass that does, is printed. Times are
    logical (linear:8ms,0.03ms) where nothing is said of model, GPU or cost.
    """
    from schedbench.runner.gate import gate as hold
    from schedbench.runner.gate import run_setup

    if gating.keep_passes and not gating.update:
        raise UsageError("--keep-passes is for making a baseline: give --update too")
    _spare_inputs(trace, gating)
    with _telling_refusal(gating):
        known = _known(gating)
        settings = settle(
            flags.given,
            flags.serve_args,
            serving.given,
            is_sample=trace is None,
            has_release=known is not None,
        )
        setup = _setup(known, gating, settings, _typed(load, speedup, decisions))
        tell_if_sample(trace, "gate")
        window = _window(window, known)
        loaded = Input(trace, reading, window).load()
        replayed = replace(setup.options, short_way=not decisions.no_steady)
        run = _run(loaded, replace(setup, options=replayed), run_setup)
        typed = {name: text for name, text in asdict(window).items() if text is not None}
        if gating.update:
            _update(gating, known, run, setup, typed)
            return
        assert known is not None
        result = hold(gating.baseline, known, run, setup, window=typed)
    _tell(result, setup.config.release, gating, printing)


def _spare_inputs(trace: str | None, gating: Gating) -> None:
    """Refuse to write over what is read."""
    read = [Path(each).resolve() for each in (trace, gating.baseline) if each is not None]
    for option, path in (("--junit", gating.junit), ("--markdown", gating.markdown)):
        if path is not None and path.resolve() in read:
            raise UsageError(f"{option} {path}: the gate reads that file; name another")


@contextmanager
def _telling_refusal(gating: Gating) -> Iterator[None]:
    """A refusal goes into the files that CI reads, as an error."""
    from schedbench.results.gate_report import refused_junit, refused_view

    try:
        yield
    except SchedbenchError as error:
        if not gating.update:
            name = gating.baseline.stem
            try:
                _write_files(gating, refused_view(name, str(error)), refused_junit(name, error))
            except OutputError as unwritten:
                console.warning(str(unwritten))
        raise


def _known(gating: Gating) -> "dict[str, Any] | None":
    """The baseline, which one that is made need not have; a damaged one is written over."""
    from schedbench.runner.gate import BrokenBaselineError, read_baseline

    if gating.update and not gating.baseline.exists():
        return None
    try:
        return read_baseline(gating.baseline)
    except BrokenBaselineError:
        if not gating.update:
            raise
        return None


def _update(
    gating: Gating,
    known: "dict[str, Any] | None",
    run: "Run",
    setup: "Setup",
    window: dict[str, str],
) -> None:
    from schedbench.runner.gate import write_baseline

    if known is not None:
        _tell_changes(gating, known, run, setup, window)
    elif gating.baseline.exists():
        console.note(f"{gating.baseline} was damaged; it is written over")
    write_baseline(gating.baseline, run, setup, window=window, keep_passes=gating.keep_passes)
    console.plain(f"wrote {gating.baseline}; look at it before you commit it")


def _window(typed: Window, known: "dict[str, Any] | None") -> Window:
    """The part of the trace that is asked for, else that of the baseline."""
    kept = ((known or {}).get("trace") or {}).get("window")
    if typed != Window() or not kept:
        return typed
    told = " ".join(f"--{name.rstrip('_')} {text}" for name, text in kept.items())
    console.note(f"{told}, as in the baseline")
    return Window(**kept)


def _tell_changes(
    gating: Gating,
    known: "dict[str, Any]",
    run: "Run",
    setup: "Setup",
    window: dict[str, str],
) -> None:
    """What a baseline that is written over said otherwise."""
    from schedbench.results.gate import Status
    from schedbench.runner.gate import gate as hold

    try:
        result = hold(gating.baseline, known, run, setup, window=window)
    except RunStoreError as error:
        console.note(f"{gating.baseline} was another run's: {error}")
        return
    changed = [each for each in result.checks if each.status is not Status.OK]
    if not changed:
        console.plain(f"{gating.baseline} said the same")
    for each in changed:
        console.plain(f"{each.key}: {each.expected} -> {each.actual}")


def _typed(load: Load, speedup: str, decisions: Decisions) -> "dict[str, Any]":
    """Options of the replay that are not the default."""
    from schedbench.runner.gate import DEFAULTS, OPTIONS

    typed = replay_options(
        load, speedup=speedup, scheduler=decisions.scheduler, policy_class=decisions.policy_class
    )
    return {
        name: getattr(typed, name)
        for name in OPTIONS
        if name != "deployment" and getattr(typed, name) != getattr(DEFAULTS.options, name)
    }


def _setup(
    known: "dict[str, Any] | None", gating: Gating, settings: Settings, typed: "dict[str, Any]"
) -> "Setup":
    """What was typed; where nothing was, what the baseline was made with."""
    from schedbench.runner.deployment import Deployment
    from schedbench.runner.gate import DEFAULTS, setup_of

    deployment = settings.deployment
    serving = {} if deployment == Deployment() else {"deployment": deployment}
    if known is not None:
        try:
            return setup_of(known, gating.baseline).changed(**settings.given, **typed, **serving)
        except RunStoreError:
            if not gating.update:
                raise
    flags = settings.config().as_dict() if serving else settings.flags
    return DEFAULTS.changed(**flags, **typed, **serving)


def _run(trace: "Trace", setup: "Setup", run_setup: "Any") -> "Run":  # noqa: ANN401
    from schedbench.cli.progress import ReplayProgress

    by_arrivals = setup.options.arrivals != "all-at-once"
    with ReplayProgress(trace.num_requests, by_arrivals) as progress:
        found: Run = run_setup(trace, setup, progress)
        return found


def _tell(result: "GateResult", release: str, gating: Gating, printing: Printing) -> None:
    """Print it, write the files, and leave with 1 if something differs."""
    from schedbench.cli.print_view import print_view
    from schedbench.results.gate_report import gate_view, junit

    name = gating.baseline.stem
    view = named(gate_view(name, result), release)
    print_view(view, printing.chosen)
    _write_files(gating, view, junit(name, result))
    if not result.passed:
        raise typer.Exit(1)


def _write_files(gating: Gating, view: "View", junit: str) -> None:
    from schedbench.results.export import as_markdown

    if gating.junit is not None:
        _write(gating.junit, junit)
    if gating.markdown is not None:
        _write(gating.markdown, as_markdown(view))
    if summary := os.environ.get(STEP_SUMMARY):
        _write(Path(summary), as_markdown(view), "a")


def _write(path: Path, text: str, mode: str = "w") -> None:
    from schedbench.results.files import writing

    with writing(path), path.open(mode, encoding="utf-8") as file:
        file.write(text)
