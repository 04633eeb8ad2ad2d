"""Help pages: options in groups, never a name cut short, the same in a terminal and in a pipe.

Scheduler flags
  --max-num-seqs N             Most requests running at once (seats). [256]
  --[no-]enable-prefix-caching
                               Let requests with equal beginnings share blocks. [on]
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import TextWrapper
from typing import Any

from typer.core import TyperCommand, TyperGroup

from schedbench.cli import console
from schedbench.cli.repeats import refuse_repeats
from schedbench.cli.usage import UsageFault

_WIDEST, _NARROWEST, _INDENT, _NAMES = 100, 40, 2, 30
_BOLD, _CYAN, _RESET = "\x1b[1m", "\x1b[36m", "\x1b[0m"


@contextmanager
def explained(ctx: Any) -> Iterator[None]:  # noqa: ANN401 - typer's own type
    """An option without its value is answered with the help of this command, not of the program."""
    try:
        yield
    except UsageFault as error:
        error.ctx = ctx  # type: ignore[attr-defined]
        raise


class Command(TyperCommand):
    """A command that writes its help page as this module does, and takes an option once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own types
        if not ctx.resilient_parsing:
            with explained(ctx):
                _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            refuse_repeats(order, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        formatter.write("\n".join(_page(self, ctx)))


class Group(TyperGroup):
    """A group of commands, likewise."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        formatter.write("\n".join(_page(self, ctx)))


def _page(command: Any, ctx: Any) -> Iterator[str]:  # noqa: ANN401 - either of the two
    width = max(_NARROWEST, min(get_terminal_size().columns, _WIDEST))
    yield f"{_bold('Usage:')} {ctx.command_path} {' '.join(_usage(command))}"
    for paragraph in (command.help or "").split("\n\n"):
        yield ""
        yield from _paragraph(paragraph, width)
    if isinstance(command, Group):
        yield from _section("Commands", _commands(command, ctx), width)
    for title, entries in _options(command, ctx).items():
        yield from _section(title, entries, width)


def _usage(command: Any) -> list[str]:  # noqa: ANN401
    arguments = [
        each.metavar or each.name.upper()
        for each in command.params
        if each.param_type_name != "option"
    ]
    return ["[OPTIONS]", *arguments, *(["COMMAND"] if isinstance(command, Group) else [])]


def _paragraph(text: str, width: int) -> list[str]:
    """Running text is filled; an example, which begins with the program's name, stays a line."""
    if text.startswith("schedbench "):
        return [f"  {_cyan(text)}"]
    return _filled(text, width)


def _commands(group: Any, ctx: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    found = [(name, group.get_command(ctx, name)) for name in group.list_commands(ctx)]
    return [
        (name, (command.help or "").split("\n\n")[0].replace("\n", " "))
        for name, command in found
        if not command.hidden
    ]


def _options(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:  # noqa: ANN401
    """Entries by section: arguments first, then the groups in the order they were declared."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if getattr(param, "hidden", False):
            continue
        is_argument = param.param_type_name != "option"
        title = "Arguments" if is_argument else param.rich_help_panel or "Options"
        sections.setdefault(title, []).append((_names(param, is_argument), _about(param, ctx)))
    first = {title: sections.pop(title) for title in ("Arguments",) if title in sections}
    last = {title: sections.pop(title) for title in ("Options",) if title in sections}
    return first | sections | last


def _names(param: Any, is_argument: bool) -> str:  # noqa: ANN401
    if is_argument:
        return str(param.metavar or param.name.upper())
    if param.secondary_opts:
        return f"--[no-]{param.opts[0].removeprefix('--')}"
    short = [each for each in param.opts if not each.startswith("--")]
    names = ", ".join([*short, *[each for each in param.opts if each not in short][:1]])
    return names if param.is_flag else f"{names} {_metavar(param)}"


def _metavar(param: Any) -> str:  # noqa: ANN401
    if param.metavar:
        return str(param.metavar)
    words = param.type_descriptor.choices
    return "|".join(str(getattr(word, "value", word)) for word in words) if words else "TEXT"


def _about(param: Any, ctx: Any) -> str:  # noqa: ANN401
    """The help text, with the default in brackets."""
    text = param.help or ""
    shown = getattr(param, "show_default", False)
    if isinstance(shown, str):
        return f"{text} [{shown}]"
    default = param.get_default(ctx)
    if not shown or default is None or default is False:
        return text
    return f"{text} [{getattr(default, 'value', default)}]"


def _section(title: str, entries: list[tuple[str, str]], width: int) -> Iterator[str]:
    yield ""
    yield _bold(title)
    column = min(max(len(name) for name, _ in entries), _NAMES) + _INDENT + 2
    for name, text in entries:
        lines = _filled(text, width - column) or [""]
        head = " " * _INDENT + name
        if len(head) + 2 > column:
            yield " " * _INDENT + _cyan(name)
        else:
            first = lines.pop(0)
            yield " " * _INDENT + _cyan(name) + " " * (column - len(head)) + first
        yield from (" " * column + line for line in lines)


def _filled(text: str, width: int) -> list[str]:
    return TextWrapper(width, break_long_words=False, break_on_hyphens=False).wrap(text)


def _bold(text: str) -> str:
    return f"{_BOLD}{text}{_RESET}" if console.has_colour(sys.stdout) else text


def _cyan(text: str) -> str:
    return f"{_CYAN}{text}{_RESET}" if console.has_colour(sys.stdout) else text
