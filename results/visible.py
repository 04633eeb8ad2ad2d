"""Text from outside as it may be shown: what a terminal or a page would obey stands as an escape.

Ids, names of columns, paths, values of files and messages of libraries can hold anything. Every
place that text leaves through (sheets, the lines of the command line, pages, timelines, XML) sends
it through here, so that no other place need think of it.
"""

import codecs
import unicodedata
from typing import Any, Final

_OBEYED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidirectional, zero width), surrogates, unassigned, line separators."""
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Letters and marks by category that have no shape."""
_PLAIN: Final = {"µ": "u", "·": "-", "─": "-", "±": "+-", "█": "#"}
LOSSY: Final = "schedbench.visible"
"""How a stream encodes what its encoding lacks: by a look-alike, else as an escape."""


def visible(text: str, kept: str = "\n\t") -> str:
    r"""The text with each character that has an effect and no shape as `\x1b` or `\u202e`.

    `kept` stay as they are: the layout of what has several lines.
    """
    if text.isprintable() and text.isascii():
        return text
    return "".join(each if each in kept or _has_shape(each) else _escape(each) for each in text)


def visible_in_all(data: Any) -> Any:  # noqa: ANN401 - JSON
    """The same of every text, name and list in data that a page or a timeline is made of."""
    match data:
        case str():
            return visible(data)
        case dict():
            return {visible_in_all(name): visible_in_all(value) for name, value in data.items()}
        case list() | tuple():
            return [visible_in_all(each) for each in data]
        case _:
            return data


def visible_json(text: str, *, is_ascii: bool = False) -> str:
    """JSON that means the same: its own escapes stand for what has no shape."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        each
        if each in "\n\t" or (_has_shape(each) and not (is_ascii and each > "~"))
        else _json(each)
        for each in text
    )


def _has_shape(each: str) -> bool:
    return unicodedata.category(each) not in _OBEYED and each not in _INVISIBLE


def _escape(each: str) -> str:
    return each.encode("unicode_escape", "surrogatepass").decode("ascii")


def _json(each: str) -> str:
    units = each.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _encode_lossy(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(each) or _escape(each) for each in lacking), error.end


codecs.register_error(LOSSY, _encode_lossy)
