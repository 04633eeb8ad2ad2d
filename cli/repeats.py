"""An option given twice is refused: the first would be dropped without a word."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from schedbench.errors import UsageError

JOINED_WITH = {"behaviours": "+"}


def refuse_repeats(order: Sequence[Any], words: Sequence[str]) -> None:
    """Raises UsageError for a parameter that stands in `order`, as typer read `words`, twice."""
    for param, count in Counter(order).items():
        if count > 1 and param.param_type_name == "option":
            raise UsageError(f"{_told(param, words)}; give it once{_joined(param)}")


def _told(param: Any, words: Sequence[str]) -> str:  # noqa: ANN401 - typer's own type
    spellings = {*param.opts, *param.secondary_opts}
    typed = [word.partition("=")[0].replace("_", "-") for word in words]
    used = list(dict.fromkeys(each for each in typed if each in spellings))
    if len(used) > 1:
        return f"{' and '.join(used)} are one option"
    return f"{used[0] if used else param.opts[0]} stands there twice"


def _joined(param: Any) -> str:  # noqa: ANN401
    """How several values go into one."""
    comma = "comma" if "," in (param.metavar or "") else None
    by = JOINED_WITH.get(param.name, comma)
    return f", several with a {by}" if by else ""
