"""JSON Lines to Arrow, block by block: Arrow's parser first, and a slow one that explains.

Arrow reads a block of lines at once. Where it refuses, or takes two objects on a line for two
rows, the block is read again line by line: values that lose nothing are taken (12.0 for 12),
and the first line at fault is named with its text.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json

from schedbench.workloads.files import Source, faults
from schedbench.workloads.place import Place, shown

_BLOCK_BYTES = 1 << 25
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Fields = Mapping[str, pa.DataType]


def read_json_lines(
    source: Source, fields: Fields, *, others: bool = False, skip_lines: int = 0
) -> Iterator[tuple[Place, pa.Table]]:
    """Tables of the named fields (null where a line lacks one), with where each begins.

    `others` keeps further fields too, with types as Arrow finds them. Raises TraceError.
    """
    place = in_lines(source, skip_lines)
    with faults(place):
        for block in _blocks(source, skip_lines):
            table = _parsed(block, fields, others, place)
            yield place, table
            place = place.moved(table.num_rows)


def first_object(source: Source) -> dict[str, Any]:
    """The fields of the first line; empty if that is no JSON object."""
    with faults(source.place):
        line = source.first_line().removeprefix(_BYTE_ORDER_MARK)
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return values if isinstance(values, dict) else {}


def in_lines(source: Source, skip_lines: int) -> Place:
    """A place whose rows are the lines that are not blank, after the first `skip_lines`."""
    return replace(source.place, also=lambda row: _line_of(source, row + skip_lines))


def _line_of(source: Source, row: int) -> str | None:
    with source.stream() as stream:
        for number, line in enumerate(io.BufferedReader(stream), 1):
            row -= bool(line.strip())
            if row < 0:
                return f"line {number}"
    return None


def _blocks(source: Source, skip_lines: int) -> Iterator[bytes]:
    """Whole lines, some megabytes at a time, the byte order mark taken off."""
    rest = b""
    at_start = True
    with source.stream() as stream:
        while data := stream.read(_BLOCK_BYTES):
            if at_start:
                data, at_start = data.removeprefix(_BYTE_ORDER_MARK), False
            lines, newline, tail = data.rpartition(b"\n")
            if newline:
                yield _without(rest + lines + newline, skip_lines)
                rest, skip_lines = tail, 0
            else:
                rest += tail
    if rest.strip():
        yield _without(rest, skip_lines)


def _without(block: bytes, lines: int) -> bytes:
    return block.split(b"\n", lines)[-1] if lines else block


def _parsed(block: bytes, fields: Fields, others: bool, place: Place) -> pa.Table:
    lines = [line for line in block.split(b"\n") if line.strip()] if b"\n\n" in block else None
    count = block.count(b"\n") + (not block.endswith(b"\n")) if lines is None else len(lines)
    if not block.strip():
        return _table([], fields, others, place)
    try:
        table = pa.json.read_json(
            pa.BufferReader(block),
            read_options=pa.json.ReadOptions(block_size=len(block)),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema(list(fields.items())),
                unexpected_field_behavior="infer" if others else "ignore",
            ),
        )
    except pa.ArrowException:
        table = None
    if table is None or table.num_rows != count:
        exact = any(pa.types.is_decimal(arrow) for arrow in fields.values())
        return _table(_objects(block, exact, place), fields, others, place)
    return table


def _objects(block: bytes, exact: bool, place: Place) -> list[dict[str, Any]]:
    """The lines as objects; `exact` keeps every digit of numbers that are no integers."""
    rows: list[dict[str, Any]] = []
    for line in block.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_float=Decimal if exact else float)
        except ValueError as error:
            found = f"{place.row(len(rows))} is not JSON: {_fault(line, error)}"
            raise place.refuse_input(found, "Correct or remove the line") from error
        if not isinstance(row, dict):
            found = f"{place.row(len(rows))} is not an object: {shown(row)}"
            raise place.refuse_input(found, "Write one {...} a line")
        rows.append(row)
    return rows


def _fault(line: bytes, error: ValueError) -> str:
    """What the parser says, and the text around it; long lines are cut on both sides."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    around = error.doc[max(0, error.pos - 30) : error.pos + 20].strip()
    return f"{error.msg} at character {error.pos} of {len(line)}: {shown(around)}"


def _table(rows: list[dict[str, Any]], fields: Fields, others: bool, place: Place) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row) if others else {}
    arrays = {
        name: _column([row.get(name) for row in rows], name, fields.get(name), place)
        for name in [*fields, *(name for name in names if name not in fields)]
    }
    return pa.table(arrays)


def _column(values: list[Any], name: str, arrow: pa.DataType | None, place: Place) -> pa.Array:
    """One field of parsed lines; mixed types are refused with the row where they change."""
    kinds: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            kinds.setdefault(_kind(value), row)
    if len(kinds) > 1:
        (first, _), (second, row) = list(kinds.items())[:2]
        found = f"{shown(values[row])} is a {second}, rows before hold a {first}"
        raise place.refuse(row, name, found, "Write one type throughout")
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array(values)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, int | float | Decimal):
        return "number"
    names: dict[type, str] = {str: "text", list: "list", dict: "object"}
    return next(name for kind, name in names.items() if isinstance(value, kind))
