"""A sweep or a search that is taken up with --resume: its folder keeps the command line."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schedbench.errors import RunStoreError

PLACES = ("out", "resume", "no_store")


def refuse_what_is_none(resume: Path | None, command: str) -> None:
    """Before anything else is said of `--resume DIR`. Raises RunStoreError where none is."""
    from schedbench.results.run_store import SWEEP

    if resume is None or (resume / SWEEP).is_file():
        return
    found = f"has no {SWEEP}, so it is none" if resume.exists() else "is not there"
    raise RunStoreError(
        f"--resume {resume}: that folder {found}. Name one that `schedbench {command}` made, or "
        "leave --resume out to begin anew"
    )


def taken_up(
    command: Any,  # noqa: ANN401 - typer's own types
    ctx: Any,  # noqa: ANN401
    args: list[str],
    spelled_out: Callable[[Sequence[str]], list[str]],
) -> list[str]:
    """What was typed, and what is left out of it as it was typed for the folder of `--resume`."""
    parser = command.make_parser(ctx)
    typed, _, order = parser.parse_args(args=list(args))
    kept = _kept_line(Path(typed["resume"])) if typed.get("resume") else []
    if not kept:
        return args
    known, _, kept_order = parser.parse_args(args=spelled_out(kept))
    given = {each.name for each in order if typed[each.name] is not None}
    words = list(args)
    for each in kept_order:
        if each.name not in {*given, *PLACES} and known[each.name] is not None:
            words += _spelled(each, known[each.name])
    return words


def _kept_line(folder: Path) -> list[str]:
    """The words after the command of the line that made a sweep or a search."""
    import orjson

    from schedbench.results.run_store import SWEEP

    try:
        _, _, *words = orjson.loads((folder / SWEEP).read_bytes())["command_line"]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return []
    return [str(word) for word in words if word not in ("--debug", "--quiet")]


def _spelled(option: Any, value: str | bool) -> list[str]:  # noqa: ANN401 - typer's own type
    if option.param_type_name != "option":
        return [str(value)]
    if isinstance(value, bool):
        return [option.opts[0] if value else option.secondary_opts[0]]
    return [option.opts[0], value]
