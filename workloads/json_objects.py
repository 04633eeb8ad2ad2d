"""JSON Lines one by one: slow, and able to say what is wrong with which line."""

import json
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa

from schedbench.workloads.exact import first_where
from schedbench.workloads.place import Place, printable, shown

Fields = Mapping[str, pa.DataType]


def objects_in(block: bytes, place: Place, *, exact: bool = False) -> list[dict[str, Any]]:
    """The lines as objects; `exact` keeps every digit of numbers that are no integers."""
    rows: list[dict[str, Any]] = []
    for line in block.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(
                line,
                parse_float=Decimal if exact else float,
                parse_constant=_no_number,
                object_pairs_hook=_each_once,
            )
            _refuse_half_characters(row, line)
        except RecursionError as error:
            found = f"{place.row(len(rows))} is nested too deep to read"
            raise place.refuse_input(found, "Leave out the field that is, or flatten it") from error
        except ValueError as error:
            found = f"{place.row(len(rows))} is not JSON: {_fault(line, error)}"
            raise place.refuse_input(found, "Correct or remove the line") from error
        if not isinstance(row, dict):
            found = f"{place.row(len(rows))} is not an object: {shown(row)}"
            raise place.refuse_input(found, "Write one {...} a line")
        rows.append(row)
    return rows


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


def _refuse_half_characters(row: object, line: bytes) -> None:
    r"""Text with one half of a surrogate pair, `"\ud800"`, stands for no character."""
    if b"\\ud" in line.lower():
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("it holds half of a surrogate pair") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it names {shown(max(names, key=names.count))} twice")
    return fields


def _fault(line: bytes, error: ValueError) -> str:
    """What the parser says, and the text around it; long lines are cut on both sides."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text: {shown(line[error.start : error.start + 8])}"
    if not isinstance(error, json.JSONDecodeError):
        return printable(str(error))
    around = error.doc[max(0, error.pos - 30) : error.pos + 20].strip()
    return f"{error.msg} at character {error.pos} of {len(line)}: {shown(around)}"


def table_of(rows: list[dict[str, Any]], fields: Fields, others: bool, place: Place) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row) if others else {}
    arrays = {
        name: column_of([row.get(name) for row in rows], name, fields.get(name), place)
        for name in [*fields, *(name for name in names if name not in fields)]
    }
    return pa.table(arrays)


def column_of(values: list[Any], name: str, arrow: pa.DataType | None, place: Place) -> pa.Array:
    """One field of parsed lines; mixed types are refused with the row where they change."""
    kinds: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            kinds.setdefault(_kind(value), row)
    if len(kinds) > 1:
        (first, _), (second, row) = list(kinds.items())[:2]
        found = f"{shown(values[row])} is a {second}, rows before hold a {first}"
        raise place.refuse(row, name, found, "Write one type throughout")
    for wanted in (arrow, None):
        with suppress(pa.ArrowException, ArithmeticError, TypeError, ValueError):
            return pa.array(values, wanted)
    row = first_where(len(values), lambda first, end: not _fits(values[first:end]))
    remedy = "Numbers have up to 64 bits, and lists and objects the same fields throughout"
    raise place.refuse(row, name, f"{shown(values[row])} does not fit with the rows before", remedy)


def _fits(values: list[Any]) -> bool:
    try:
        pa.array(values)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return False
    return True


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, int | float | Decimal):
        return "number"
    names: dict[type, str] = {str: "text", list: "list", dict: "object"}
    return next(name for kind, name in names.items() if isinstance(value, kind))
