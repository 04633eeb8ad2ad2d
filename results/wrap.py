"""Where a sentence may be broken into lines: between words, never within a command or a path."""

import re
from typing import Final

_PIECE: Final = re.compile(
    r"\s*(?:\b(?:schedbench|vllm serve|pip install) .*|(?:`[^`]*`|\S)+\s*)|\s+"
)
"""A word, a command between backticks, or one that begins here and ends with its line."""


def wrapped(text: str, width: int | None) -> str:
    """`text` in lines of `width` columns at most; a command, or a word, that is longer has its own.

    Without a width it is left as it is: whoever reads a pipe wraps for himself.
    """
    if width is None:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _lines(line, width))


def _lines(line: str, width: int) -> list[str]:
    found = [""]
    for piece in _PIECE.findall(line):
        if found[-1].strip() and len(found[-1]) + len(piece.rstrip()) > width:
            found[-1] = found[-1].rstrip()
            found.append(piece.lstrip())
        else:
            found[-1] += piece
    return found
