"""The scheduler's flags as options, made from the fields of SchedulerConfig."""

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Self

import typer

from schedbench.cli.command import option
from schedbench.cli.values import (
    FLAGS,
    choices_of,
    default_text,
    is_switch,
    kind_of,
    parse_value,
    shown_option,
    spellings,
)
from schedbench.errors import UsageError

PANEL = "Scheduler flags, as vllm serve spells them"
_METAVARS = {int: "N", float: "SHARE"}

ServeArgsOption = Annotated[
    str | None,
    typer.Option(
        "--serve-args",
        metavar='"vllm serve ..."',
        help="A whole command line of a server. Each flag is used, listed as without effect on "
        "scheduling, or refused with its reason. Flags given beside it win.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class Flags:
    """Flags that were given, by field name; `serve_args` as typed."""

    given: dict[str, Any]
    serve_args: str | None = None

    @classmethod
    def options(cls) -> Iterator[Parameter]:
        """One option a flag; None means that it was not given."""
        for name in FLAGS:
            yield option(name, _flag_type(name), None)
        yield option("serve_args", ServeArgsOption, None)

    @classmethod
    def of(cls, serve_args: str | None, **options: Any) -> Self:  # noqa: ANN401
        """Read the values as they were typed. Raises UsageError."""
        for name, value in options.items():
            if isinstance(value, str) and "," in value and name != "behaviours":
                raise UsageError(
                    f"{shown_option(name)} takes one value here, and {value} is a list; "
                    f"`schedbench sweep TRACE {shown_option(name)} {value}` replays each"
                )
        given = {
            name: parse_value(name, value) if isinstance(value, str) else value
            for name, value in options.items()
            if value is not None
        }
        return cls(given, serve_args)


def _flag_type(name: str) -> Any:  # noqa: ANN401 - an annotated type
    known = FLAGS[name]
    switch = is_switch(name)
    options = spellings(name)
    if switch:  # both forms in one declaration
        options = [f"{each}/--no-{each.removeprefix('--')}" for each in options]
    declared = typer.Option(
        *options,
        help=known.metadata["help"],
        show_default=default_text(name),
        metavar=None if switch else metavar_of(name),
        rich_help_panel=PANEL,
    )
    return Annotated[bool | None if switch else str | None, declared]


def metavar_of(name: str) -> str:
    """What stands for a flag's value in its help."""
    words = choices_of(name)
    return "|".join(words) if words else _METAVARS.get(kind_of(name), "TEXT")
