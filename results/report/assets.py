"""What a page is made of: our templates, styles and scripts, and the plotting library."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import orjson

from schedbench.errors import UsageError
from schedbench.results.extras import remedy
from schedbench.results.visible import visible, visible_in_all

_FOLDER: Final = files("schedbench.results.report")
_UPLOT: Final = ("vendor/uPlot.iife.min.js", "vendor/uPlot.min.css")
_COMMON: Final = ("format.js", "theme.js", "buttons.js")


def rendered(template: str, scripts: Sequence[str], data: Any, facts: Mapping[str, Any]) -> str:  # noqa: ANN401 - JSON
    """A whole page. Every text in `facts` and `data` is escaped here, and nowhere else.

    The page carries its own policy: no request to anywhere, no script but this one.
    """
    script = _script(scripts)
    return str(
        _environment()
        .get_template(template)
        .render(
            **facts,
            style=_read("report.css"),
            library_style=_read(_UPLOT[1]),
            script=script,
            script_hash=_sha256(script),
            data=_as_data(data),
        )
    )


def _environment() -> Any:  # noqa: ANN401 - of a package that may be absent
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"a report is filled in with Jinja2, which is not installed: {remedy('jinja2')}"
        ) from error
    return Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _finalized(value: Any) -> Any:  # noqa: ANN401 - whatever a template prints
    """Text of the run; what is `safe` (styles, scripts, data) is ours or escaped already."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(value) if is_text else value


def _script(names: Sequence[str]) -> str:
    """The library, then our own files in one scope."""
    own = "\n".join(_read(name) for name in (*_COMMON, *names))
    return f'{_read(_UPLOT[0])}\n(() => {{\n"use strict";\n{own}\n}})();\n'


def _read(name: str) -> str:
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _as_data(data: Any) -> str:  # noqa: ANN401 - JSON
    """JSON that no text in it can end: `<`, `>` and `&` stand as escapes."""
    text = orjson.dumps(visible_in_all(data), option=orjson.OPT_SERIALIZE_NUMPY).decode()
    for special in "<>&\u2028\u2029":
        text = text.replace(special, f"\\u{ord(special):04x}")
    return text
