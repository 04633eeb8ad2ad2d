"""Where text goes: results to stdout, everything else to stderr; colour on terminals only."""

import os
import sys
from typing import TextIO

from schedbench.results.visible import LOSSY, visible

_RED, _YELLOW, _DIM, _RESET = "\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that wants colour; NO_COLOR and TERM=dumb are honoured."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


_QUIET = [False]


def be_quiet(wanted: bool) -> None:
    """Whether to show no progress."""
    _QUIET[:] = [wanted]


def is_quiet() -> bool:
    return _QUIET[0]


def is_live(stream: TextIO) -> bool:
    """Whether lines may be rewritten in place."""
    return not is_quiet() and stream.isatty() and os.environ.get("TERM") != "dumb"


def write_any_text() -> None:
    """No letter ends a command: what a stream's encoding lacks is written in its own letters."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=LOSSY)


def result(text: str) -> None:
    """Write a result; one line feed ends it, whatever it ends with."""
    sys.stdout.write(visible(text).rstrip("\n") + "\n")


def page(text: str) -> None:
    """Write a help page, whose colours and words are this program's."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def note(text: str) -> None:
    """Something worth knowing that is no result."""
    _say("note", _DIM, text)


def warning(text: str) -> None:
    _say("warning", _YELLOW, text)


def error(text: str) -> None:
    _say("error", _RED, text)


def plain(text: str) -> None:
    """A line on stderr without a label."""
    sys.stderr.write(visible(text) + "\n")


def _say(label: str, colour: str, text: str) -> None:
    sys.stdout.flush()  # in a terminal both streams are one screen: keep their order
    painted = f"{colour}{label}:{_RESET}" if has_colour(sys.stderr) else f"{label}:"
    shown = visible(text).replace("\n", "\n  ")  # so that no message looks like two
    sys.stderr.write(f"{painted} {shown}\n")
