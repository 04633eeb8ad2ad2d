"""What a search takes for each flag: a value, a list, or a range to search in."""

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from schedbench.cli.command import option
from schedbench.cli.flags import PANEL, ServeArgsOption, metavar_of
from schedbench.cli.ranges import parse_flag_values
from schedbench.cli.values import (
    FLAGS,
    is_switch,
    kind_of,
    parse_value,
    show_value,
    shown_option,
    spellings,
)
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.runner.tune.space import Choices, Range

_ENDS = 2


@dataclass(frozen=True)
class FlagSpaces:
    """The flags that were given, as typed, by field; `serve_args` as typed."""

    given: dict[str, str]
    serve_args: str | None = None

    @classmethod
    def options(cls) -> Iterator[Parameter]:
        """One option a flag; None means that it was not given."""
        for name in FLAGS:
            yield option(name, _space_type(name), None)
        yield option("serve_args", ServeArgsOption, None)

    @classmethod
    def of(cls, serve_args: str | None, **options: str | None) -> Self:
        return cls({k: text for k, text in options.items() if text is not None}, serve_args)

    def sorted_out(self) -> "tuple[dict[str, Range | Choices], dict[str, Any]]":
        """What is to be searched, and what is fixed. Raises UsageError."""
        space: dict[str, Range | Choices] = {}
        fixed: dict[str, Any] = {}
        for name, text in self.given.items():
            found = parse_space(name, text)
            if isinstance(found, list):
                fixed[name] = found[0]
            else:
                space[name] = found
        return space, fixed


def parse_space(name: str, text: str) -> "Range | Choices | list[Any]":
    """A range (16:1024), some values (64,128 or 2048:16384:x2), or one value in a list."""
    from schedbench.runner.tune.space import Choices, Range

    ends = text.split(":")
    if len(ends) == _ENDS and "," not in text and kind_of(name) in (int, float):
        low, high = (parse_value(name, end) for end in ends)
        if low >= high:
            raise UsageError(f"{shown_option(name)}: {text!r} does not go up; write LOW:HIGH")
        return Range(low, high, whole=kind_of(name) is int)
    values = parse_flag_values(name, text)
    return values if len(values) == 1 else Choices(tuple(values))


def _space_type(name: str) -> Any:  # noqa: ANN401 - an annotated type
    known = FLAGS[name]
    metavar = f"{metavar_of(name)},...{'|LOW:HIGH' * (kind_of(name) in (int, float))}"
    declared = typer.Option(
        *spellings(name),
        help=known.metadata["help"],
        show_default=False if known.default is None else show_value(known.default),
        metavar="on,off" if is_switch(name) else metavar,
        rich_help_panel=PANEL,
    )
    return Annotated[str | None, declared]
