"""A view in a form for programs: JSON, CSV, Markdown."""

import csv
import io
from enum import Enum
from typing import TextIO

import orjson

from schedbench.results.sheet import Cell, Mark, Raw, Sheet, View
from schedbench.results.visible import visible, visible_in_all, visible_json


class Format(Enum):
    """The values of `--format`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


def write_view(view: View, form: Format, file: TextIO) -> None:
    """Write a view in the form that was asked for."""
    match form:
        case Format.TABLE:
            from schedbench.results.tables import show  # noqa: PLC0415 (rich is slow to load)

            show(view, file)
        case Format.JSON:
            file.write(as_json(view, is_ascii=_lacks_letters(file)))
        case Format.CSV:
            file.write(as_csv(view))
        case Format.MD:
            file.write(as_markdown(view))


def _lacks_letters(file: TextIO) -> bool:
    encoding = getattr(file, "encoding", None)
    return encoding is not None and not encoding.lower().startswith("utf")


def as_json(view: View, *, is_ascii: bool = False) -> str:
    """The view's data with its warnings; times in ns, shares as fractions.

    What a terminal would obey stands as JSON's own escapes, so that the data is the same.
    """
    data = view.data
    if isinstance(data, dict) and view.warnings:
        data = {**data, "warnings": list(view.warnings)}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    options |= orjson.OPT_SERIALIZE_NUMPY
    try:
        text = orjson.dumps(data, option=options).decode()
    except orjson.JSONEncodeError:  # a path that is no UTF-8
        text = orjson.dumps(visible_in_all(data), option=options).decode()
    return visible_json(text, is_ascii=is_ascii)


def as_csv(view: View) -> str:
    """The view's flat sheet: raw values made visible, and nothing where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([heading.key or heading.title for heading in view.flat.headings])
    for row in view.flat.rows:
        writer.writerow([_flat(cell.raw) for cell in row])
    return out.getvalue()


def _flat(raw: Raw) -> Raw:
    if raw is None:
        return ""
    return visible(raw) if isinstance(raw, str) else raw


def as_markdown(view: View) -> str:
    """The view's sheets as tables, facts as lists, warnings as quotes."""
    parts = [f"### {_escaped(view.title)}"] if view.title else []
    parts += [_markdown(sheet) for sheet in view.sheets if sheet.rows]
    parts += [f"> warning: {_escaped(line)}" for line in view.warnings]
    return "\n\n".join(parts) + "\n"


def _markdown(sheet: Sheet) -> str:
    lines = [f"**{_escaped(sheet.title)}**", ""] if sheet.title else []
    if sheet.headings:
        lines.append(_line([_escaped(heading.title) for heading in sheet.headings]))
        lines.append(_line(["---:" if heading.is_number else "---" for heading in sheet.headings]))
        lines += [_line([_marked(cell) for cell in row]) for row in sheet.rows]
    else:
        lines += [f"- {_escaped(name.text)}: {_escaped(text.text)}" for name, text in sheet.rows]
    if sheet.note:
        lines += ["", _escaped(sheet.note)]
    return "\n".join(lines)


def _line(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _marked(cell: Cell) -> str:
    text = _escaped(cell.text)
    return f"**{text}**" if cell.mark is Mark.BEST and text else text


def _escaped(text: str) -> str:
    """Text from a trace or a path must not end a table cell or become markup."""
    for special in "\\|*_`<>[]":
        text = text.replace(special, f"\\{special}")
    return text.replace("\n", " ")
