"""What typer says of a command line it cannot read, in the words of every other message here."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

import typer

from schedbench.cli.serve_args import refusal
from schedbench.cli.values import OTHER_SPELLINGS, spellings
from schedbench.errors import UsageError

UsageFault: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for any command line it cannot read; it has no public name of its own."""


def explain(error: Exception, words: Sequence[str]) -> str:
    """One message: what is wrong, and where help is. A known flag of vLLM is named as such."""
    name = getattr(error, "option_name", None) if hasattr(error, "possibilities") else None
    if name is not None and (known := _refusal(name, words)):
        return known
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "schedbench"
    return f"{_message(error, name)} (see `{path} --help`)"


def refuse_no_text(words: Sequence[str]) -> None:
    """Raises UsageError for a word that the locale cannot read: manifests and Arrow take UTF-8."""
    for word in words:
        if any("\ud800" <= each <= "\udfff" for each in word):
            raise UsageError(
                f"{word!r} is not text in the encoding of this locale; rename the file, or set "
                "PYTHONUTF8=1 where its name is UTF-8"
            )


def as_typed(text: str, words: Sequence[str]) -> str:
    """A message with each option as the command line spells it, where it has several spellings."""
    line = " ".join(words).replace("_", "-")
    for name in OTHER_SPELLINGS:
        known = spellings(name)
        typed = [each for each in known if _whole(each).search(line)]
        if len(typed) == 1:
            for other in known:
                text = _whole(other).sub(typed[0], text)
    return text


def _whole(option: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){option}(?![\w-])")


def _message(error: Exception, name: str | None) -> str:
    if name is None:
        text: str = error.format_message()  # type: ignore[attr-defined]
        return text[:1].lower() + text[1:].rstrip(".?").replace("Value error, ", "")
    close = get_close_matches(name, getattr(error, "possibilities", None) or (), cutoff=0)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"there is no option {name}{hint}"


def _refusal(name: str, words: Sequence[str]) -> str | None:
    """Also for `-tp`, of which typer names the first letter only."""
    candidates = [name] if name.startswith("--") else [w for w in words if w.startswith(name)]
    return next((text for each in candidates if (text := refusal(each))), None)
