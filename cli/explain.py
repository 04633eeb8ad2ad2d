"""`schedbench explain`: why a run went as it did."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli.jobs import Jobs, workers_of
from schedbench.cli.options import OUTPUT, Printing
from schedbench.cli.release import named
from schedbench.errors import SchedbenchError, UsageError

if TYPE_CHECKING:
    from schedbench.results.sheet import View
    from schedbench.results.stored_run import StoredRun

QUESTION = "Question"

RunFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN]",
        help="A run folder, also of a stalled or interrupted replay; the newest under runs/ "
        "without it.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Question:
    """What is asked; at most one of them."""

    request: Annotated[
        str | None,
        typer.Option(
            metavar="ID|ROW",
            help="One request: where it stood, what held it, and what would have let it in sooner.",
            show_default=False,
            rich_help_panel=QUESTION,
        ),
    ] = None
    pass_: Annotated[
        str | None,
        typer.Option(
            "--pass",
            metavar="N",
            help="One pass: the state before, every decision with its verdict, the state after.",
            show_default=False,
            rich_help_panel=QUESTION,
        ),
    ] = None
    preemptions: Annotated[
        bool,
        typer.Option(
            "--preemptions",
            help="Who was evicted, by whom, at what cost, and what ends it.",
            rich_help_panel=QUESTION,
        ),
    ] = False
    waiting: Annotated[
        bool,
        typer.Option(
            "--waiting",
            help="What kept requests waiting: stop reasons, inversions, who starved.",
            rich_help_panel=QUESTION,
        ),
    ] = False
    prefix: Annotated[
        bool,
        typer.Option(
            "--prefix",
            help="Why the prefix cache hit as much as it did, or as little.",
            rich_help_panel=QUESTION,
        ),
    ] = False

    @property
    def _asked(self) -> int:
        asked = [self.request, self.pass_, self.preemptions, self.waiting, self.prefix]
        return sum(each not in (None, False) for each in asked)

    @property
    def is_any(self) -> bool:
        """Whether anything is asked that is answered by watching a replay."""
        return self._asked > 0

    def check(self) -> None:
        """Raises UsageError for more than one question."""
        if self._asked > 1:
            raise UsageError(
                "--request, --pass, --preemptions, --waiting and --prefix are questions of their "
                "own: ask one at a time"
            )


@dataclass(frozen=True)
class Replaying:
    """How the run is replayed."""

    trace: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where the run's trace lies now, if it was moved.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    what_if: Annotated[
        bool,
        typer.Option(
            "--what-if/--no-what-if",
            help="Replay with flags changed as well, to see what would have helped.",
            rich_help_panel=OUTPUT,
        ),
    ] = True
    jobs: Jobs = None

    def __post_init__(self) -> None:
        """Raises UsageError, also where no replay is needed."""
        workers_of(self.jobs)

    @property
    def workers(self) -> int | None:
        return workers_of(self.jobs)


def explain(
    *, run: RunFolder = None, question: Question, replaying: Replaying, printing: Printing
) -> None:
    """Say what held a run back: by replaying it from its manifest, and watching.

    schedbench explain

    schedbench explain runs/A --request 17

    Without a question: what held the run back, in one screen.
    """
    from schedbench.cli.print_view import print_view
    from schedbench.results.stored_run import StoredRun, newest
    from schedbench.results.untold import refuse_untold

    question.check()
    if run is None:
        stored = newest(allow_incomplete=True)
    else:
        stored = StoredRun.open(run, allow_incomplete=True).of_a_replay("explain")
    refuse_untold(stored, "explain")
    view = _view(stored, question, replaying)
    about_run = [*_cut_short(stored)] if question.is_any else []
    said = [*about_run, *_inert(stored), *view.warnings]
    view = replace(view, warnings=tuple(dict.fromkeys(said)))
    print_view(named(view, stored.release), printing.chosen)


def _inert(run: "StoredRun") -> list[str]:
    """Flags of the run that changed nothing."""
    from schedbench.sched.config import SchedulerConfig

    try:
        return SchedulerConfig(**run.manifest["scheduler"]).inert_warnings()
    except (KeyError, TypeError, SchedbenchError):  # of another version: the replay says so
        return []


def _cut_short(run: "StoredRun") -> list[str]:
    """What to say of an answer about a run that stalled or was interrupted."""
    from schedbench.runner.explain.rerun import same_times

    passes = f"{run.passes(['pass']).num_rows:,} passes"
    if stalled := run.manifest.get("stalled"):
        return [f"{run.path} ended after {passes}, and this is about those; it {stalled}"]
    if run.is_complete:
        return []
    known = f"{run.path} was cut short after {passes}"
    if same_times(run) is None:
        return [f"{known}, and this is about those"]
    return [f"{known}; this is about a replay that goes on to the end, and is equal up to there"]


def _view(run: "StoredRun", question: Question, replaying: Replaying) -> "View":
    from schedbench.cli import explain_views as views

    if question.request is not None:
        return views.of_request(run, question.request, replaying)
    if question.pass_ is not None:
        return views.of_pass(run, question.pass_, replaying)
    if question.preemptions:
        return views.of_preemptions(run, replaying)
    if question.waiting:
        return views.of_waiting(run, replaying)
    if question.prefix:
        return views.of_prefix(run, replaying)
    return views.of_run(run, replaying)
