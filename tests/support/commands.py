"""Every command of the program with its options, found by walking the app."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from schedbench.cli.main import app


@dataclass(frozen=True)
class Flag:
    """One option that takes a value: as it is typed, and what help puts in its place."""

    command: tuple[str, ...]
    option: str
    spellings: tuple[str, ...]
    metavar: str

    def __str__(self) -> str:
        return " ".join([*self.command, self.option])


def commands() -> dict[tuple[str, ...], Any]:
    """By the words that name them."""
    return dict(_walk(typer.main.get_command(app), ()))


def _walk(command: object, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inside = getattr(command, "commands", None)
    if inside is None:
        yield words, command
        return
    for name, inner in inside.items():
        yield from _walk(inner, (*words, name))


def flags_with_values() -> list[Flag]:
    """The options of all commands but switches."""
    return [
        Flag(words, each.opts[0], tuple(each.opts), str(each.metavar or ""))
        for words, command in commands().items()
        for each in command.params
        if each.param_type_name == "option" and not each.is_flag
    ]
