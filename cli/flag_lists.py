"""The scheduler's flags as a sweep takes them: each with one value or several."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Self

import typer

from schedbench.cli.again import taken_up
from schedbench.cli.command import option
from schedbench.cli.flags import PANEL, ServeArgsOption, metavar_of
from schedbench.cli.help import Command, explained
from schedbench.cli.ranges import parse_flag_values
from schedbench.cli.values import FLAGS, SWITCH_WORDS, default_text, is_switch, spellings
from schedbench.sched.config import option_of

_OTHER_WORDS = ("yes", "no", "true", "false", "1", "0")


@dataclass(frozen=True)
class FlagLists:
    """Values by field name, of the flags that were given; `serve_args` as typed."""

    given: dict[str, list[Any]]
    serve_args: str | None = None

    @classmethod
    def options(cls) -> Iterator[Parameter]:
        """One option a flag; None means that it was not given."""
        for name in FLAGS:
            yield option(name, _list_type(name), None)
        yield option("serve_args", ServeArgsOption, None)

    @classmethod
    def of(cls, serve_args: str | None, **options: str | None) -> Self:
        """Read the values as they were typed. Raises UsageError."""
        given = {
            name: parse_flag_values(name, text)
            for name, text in options.items()
            if text is not None
        }
        return cls(given, serve_args)


class SweepCommand(Command):
    """Takes `--enable-prefix-caching on,off`, and the plain `--[no-]enable-prefix-caching` too.

    With `--resume DIR` the folder has what is left out.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        words = spelled_out(args)
        if "--resume" in {word.partition("=")[0] for word in words}:
            with explained(ctx):
                words = taken_up(self, ctx, words, spelled_out)
        rest: list[str] = super().parse_args(ctx, words)
        return rest


def spelled_out(words: Sequence[str]) -> list[str]:
    """Plain switches with their value: `--no-x` becomes `--x off`, a lone `--x` `--x on`."""
    switches = {option_of(name) for name in FLAGS if is_switch(name)}
    found: list[str] = []
    for word, after in zip(words, [*words[1:], ""], strict=False):
        name = word.replace("_", "-")
        positive = name.replace("--no-", "--", 1)
        if positive in switches and name != positive:
            found += [positive, "off"]
        elif name in switches and not _is_switch_list(after):
            found += [name, "on"]
        else:
            found.append(word)
    return found


def _is_switch_list(word: str) -> bool:
    """Also of other words for on and off, which are refused as values of the switch."""
    return all(part.lower() in {*SWITCH_WORDS, *_OTHER_WORDS} for part in word.split(","))


def _list_type(name: str) -> Any:  # noqa: ANN401 - an annotated type
    known = FLAGS[name]
    declared = typer.Option(
        *spellings(name),
        help=known.metadata["help"],
        show_default=default_text(name),
        metavar="on,off" if is_switch(name) else f"{metavar_of(name)},...",
        rich_help_panel=PANEL,
    )
    return Annotated[str | None, declared]
