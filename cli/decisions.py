"""Options about who decides: a policy or a scheduler of one's own, in place of vLLM's decisions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from schedbench.cli.options import OUTPUT
from schedbench.errors import UsageError

PANEL = "Policy and scheduler"


def _option(metavar: str, text: str, default: str | bool = False) -> typer.models.OptionInfo:
    """An option of this panel; `default` is shown, not used."""
    found: typer.models.OptionInfo = typer.Option(
        metavar=metavar, help=text, show_default=default, rich_help_panel=PANEL
    )
    return found


NoSteady = Annotated[
    bool,
    typer.Option(
        "--no-steady",
        help="Look at every request in every pass, also where all they do is decode. The rows are "
        "the same; it takes longer.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class Decisions:
    """Who decides."""

    policy_class: Annotated[
        str | None,
        _option(
            "MODULE:CLASS",
            "Replace some of the scheduler's decisions: a subclass of schedbench.Policy, looked "
            "for in the current folder too.",
        ),
    ] = None
    scheduler: Annotated[
        str,
        _option(
            "NAME",
            "schedbench; vllm: the installed vLLM's own class; or MODULE:CLASS: a subclass of "
            "schedbench.Scheduler.",
            "schedbench",
        ),
    ] = "schedbench"
    no_steady: NoSteady = False


@dataclass(frozen=True)
class DecisionLists:
    """Who decides, at each point of a sweep."""

    policy_class: Annotated[
        str | None,
        _option(
            "MODULE:CLASS,...",
            "Replace some of the scheduler's decisions: subclasses of schedbench.Policy; the "
            "word default stands for vLLM's own decisions.",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        _option("NAME,...", "schedbench, or MODULE:CLASS.", "schedbench"),
    ] = None
    no_steady: NoSteady = False

    @property
    def given(self) -> dict[str, list[str]]:
        """Names by option, of those that were given. Raises UsageError for what is no class."""
        from schedbench.runner.plugins import load_policy, load_scheduler

        found = {}
        if self.policy_class is not None:
            found["policy_class"] = parse_names(self.policy_class, "--policy-class")
            for name in found["policy_class"]:
                load_policy(name)
        if self.scheduler is not None:
            found["scheduler"] = parse_names(self.scheduler, "--scheduler")
            for name in found["scheduler"]:
                load_scheduler(name)
        return found


@dataclass(frozen=True)
class Streams:
    """What leaves the engine, for those who want to read it."""

    outputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write what leaves the engine after each pass, a client a line (JSON Lines).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    request_events: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write when each request was QUEUED, SCHEDULED and PREEMPTED (JSON Lines).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None


def parse_names(text: str, option: str) -> list[str]:
    """Names from a list with commas. Raises UsageError for one that is empty or there twice."""
    names = [each.strip() for each in text.split(",")]
    if "" in names:
        raise UsageError(f"{option}: {text!r} has an empty place; write names with commas between")
    if len(set(names)) < len(names):
        raise UsageError(f"{option}: {text!r} has a name twice; give each once")
    return names
