"""Commands made of option groups, so that each shared option stands in one place.

A parameter whose type is a group, a dataclass of options, becomes one option a field:

    @dataclass(frozen=True)
    class Output:
        out: Annotated[Path | None, typer.Option(help="...")] = None

    def replay(output: Output) -> None: ...       # schedbench replay --out DIR

A group that is made in another way says so with the class methods `options` and `of`.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

Command = Callable[..., None]


def of_groups(command: Command) -> Command:
    """The command as typer wants it: every group spread out into its options."""
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters.values()
    groups = {
        each.name: list(options_of(hints[each.name]))
        for each in own
        if is_dataclass(hints[each.name])
    }
    single = {each.name: [option(each.name, hints[each.name], each.default)] for each in own}
    spread = [found for each in own for found in (single | groups)[each.name]]

    def run(**given: Any) -> None:  # noqa: ANN401 - whatever the options are
        for name, options in groups.items():
            make = getattr(hints[name], "of", hints[name])
            given[name] = make(**{each.name: given.pop(each.name) for each in options})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in spread}
    run.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    return run


def options_of(group: Any) -> Iterator[inspect.Parameter]:  # noqa: ANN401 - any dataclass
    """One parameter a field, in the order of the fields."""
    if hasattr(group, "options"):
        yield from group.options()
        return
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        default = inspect.Parameter.empty if each.default is MISSING else each.default
        yield option(each.name, hints[each.name], default)


def option(name: str, annotation: object, default: object) -> inspect.Parameter:
    """An option as a parameter of a function."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )
