"""`schedbench report`: one page, or a timeline, of stored runs."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli import console
from schedbench.cli.options import OUTPUT
from schedbench.errors import RunStoreError, SchedbenchError, UsageError

if TYPE_CHECKING:
    from schedbench.results.report.subject import Subject, Window
    from schedbench.results.stored_run import StoredRun

PAGE = Path("report.html")
OVER_TIME = "Charts over time"

Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[RUN]...",
        help="Run folders, six at most, or the folder of one sweep or search; the newest under "
        "runs/ without it.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Files:
    """What is written."""

    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="The page to write. With --perfetto alone there is none.",
            show_default=str(PAGE),
            rich_help_panel=OUTPUT,
        ),
    ] = None
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a timeline in the Chrome trace format, for https://ui.perfetto.dev: "
            "requests as tracks, passes as slices, counters.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    force: Annotated[
        bool,
        typer.Option("--force", help="Write over files that are there.", rich_help_panel=OUTPUT),
    ] = False

    @property
    def page(self) -> Path | None:
        return PAGE if self.out is None and self.perfetto is None else self.out

    def check(self) -> None:
        """Before any work is done. Raises OutputError if a file may not be written."""
        from schedbench.results.report.output import check_free

        for path in (self.page, self.perfetto):
            if path is not None:
                check_free(path, force=self.force)


@dataclass(frozen=True)
class Span:
    """The passes that the charts over time show."""

    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Leave out passes that start before, such as 10m on the run's clock.",
            show_default=False,
            rich_help_panel=OVER_TIME,
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave out passes that start at this time or later.",
            show_default=False,
            rich_help_panel=OVER_TIME,
        ),
    ] = None

    def window(self) -> "Window":
        from schedbench.results.report.subject import Window
        from schedbench.runner.durations import parse_duration

        return Window(
            None if self.from_ is None else parse_duration(self.from_, "--from"),
            None if self.to is None else parse_duration(self.to, "--to"),
        )


def report(*, runs: Runs = None, files: Files, span: Span) -> None:
    """Write one page about runs, side by side, or about a sweep or a search; it opens offline.

    schedbench report runs/A runs/B -o report.html

    schedbench report runs/A --perfetto timeline.json
    """
    from schedbench.results.report.sweep_folder import is_sweep

    window = span.window()
    sweeps = [run for run in runs or [] if is_sweep(run)]
    if sweeps:
        _refuse_beside_sweep(runs or [], files, span)
        _write_sweep(sweeps[0], files)
        return
    stored = _open(runs or [])
    files.check()
    if files.page is not None:
        _write_runs(stored, window, files.page)
    if files.perfetto is not None:
        _write_timeline(stored, files.perfetto)


def _refuse_beside_sweep(runs: Sequence[Path], files: Files, span: Span) -> None:
    if len(runs) > 1:
        raise UsageError("a sweep or a search has a page of its own: name its folder alone")
    if files.perfetto is not None or span != Span():
        raise UsageError(
            f"--perfetto, --from and --to are for runs, and {runs[0]} is a sweep or a search; "
            "name one of its points, such as a folder under points/"
        )


def _open(paths: Sequence[Path]) -> list["StoredRun"]:
    """Complete runs, and stalled ones: how they came to stall is what one wants to see."""
    from schedbench.results.stored_run import StoredRun, newest
    from schedbench.results.untold import refuse_untold

    if not paths:
        run = newest()
        refuse_untold(run, "a report")
        console.note(f"no run named: this is the newest, {run.path}")
        return [run]
    found = []
    for path in paths:
        run = StoredRun.open(path, allow_incomplete=True).of_a_replay("a report")
        if not run.is_complete and not (run.manifest.get("stalled") and run.summary):
            run = StoredRun.open(path)  # raises, saying what to do
        refuse_untold(run, "a report")
        found.append(run)
    return found


def _write_runs(runs: Sequence["StoredRun"], window: "Window", path: Path) -> None:
    from schedbench.results.report.output import whole_file
    from schedbench.results.report.run_page import held_text, run_page

    page = run_page([_subject(run) for run in runs], window)
    with whole_file(path) as file:
        file.write(page.html.encode())
    _tell(path, held_text(page))


def _subject(run: "StoredRun") -> "Subject":
    """A run with what its scheduler's configuration says of it, if that can be made again."""
    from schedbench.results.report.subject import Subject
    from schedbench.results.warnings import warn
    from schedbench.sched.config import SchedulerConfig

    flags, derived = run.manifest.get("scheduler", {}), run.manifest.get("derived", {})
    if not flags:
        raise RunStoreError(f"{run.path} names no flags of the scheduler. Run the replay again.")
    columns = run.manifest.get("trace", {}).get("columns", ())
    warnings = warn(run.summary, flags, derived, columns)
    known = {field.name for field in fields(SchedulerConfig)}
    try:
        config = SchedulerConfig(**{name: value for name, value in flags.items() if name in known})
    except SchedbenchError:  # a newer schedbench refuses what an older one ran
        return Subject(run, tuple(warnings))
    formulas = {each.name: each.formula for each in config.derived()}
    return Subject(run, (*config.warnings(), *warnings), formulas)


def _write_sweep(folder: Path, files: Files) -> None:
    from schedbench.cli.sweep_end import label_of
    from schedbench.results.report.output import whole_file
    from schedbench.results.report.sweep_folder import open_sweep
    from schedbench.results.report.sweep_page import sweep_page
    from schedbench.results.warnings import warn_sweep

    sweep, path = open_sweep(folder), files.page or PAGE
    files.check()
    summaries = [point.summary for point in sweep.points if point.summary is not None]
    html = sweep_page(sweep, warnings=warn_sweep(summaries), label=label_of)
    with whole_file(path) as file:
        file.write(html.encode())
    _tell(path, f"{len(summaries)} of {len(sweep.points)} points finished")


def _write_timeline(runs: Sequence["StoredRun"], path: Path) -> None:
    from schedbench.results.report.output import whole_file
    from schedbench.results.report.timeline import write_timeline

    with whole_file(path) as file:
        events = write_timeline(runs, file)
    _tell(path, f"{events:,} events; open it in https://ui.perfetto.dev")


def _tell(path: Path, what: str) -> None:
    """The file is the result; what it holds is worth knowing."""
    console.result(str(path))
    console.note(f"{path.stat().st_size / 1e6:,.1f} MB, {what}")
