"""JSON Lines to Arrow, block by block: Arrow's parser first, and a slow one that explains.

Arrow reads a block of lines at once. Where it refuses, or takes two objects on a line for two
rows, the block is read again line by line: values that lose nothing are taken (12.0 for 12),
and the first line at fault is named with its text.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.json

from schedbench.workloads.files import Source, faults
from schedbench.workloads.json_objects import Fields, objects_in, table_of
from schedbench.workloads.place import Place

_BLOCK_BYTES = 1 << 25
_BARE_NULL = re.compile(rb"\}\s*null")
"""A null in place of an object: Arrow's parser reads past its memory there (26.0.1)."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
    """The fields of the first line that is not blank. Raises TraceError if it is no object."""
    place = in_lines(source, skip_lines=0)
    with faults(place), source.stream() as stream, io.BufferedReader(stream) as lines:
        line = next((line for line in lines if line.strip()), b"")
        return objects_in(line.removeprefix(_BYTE_ORDER_MARK), place)[0]


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
        return table_of([], fields, others, place)
    table = _at_once(block, fields, others)
    if table is None or table.num_rows != count:
        exact = any(pa.types.is_decimal(arrow) for arrow in fields.values())
        return table_of(objects_in(block, place, exact=exact), fields, others, place)
    return table


def _at_once(block: bytes, fields: Fields, others: bool) -> pa.Table | None:
    """What Arrow makes of a block, or None; Arrow itself lets text through that is no UTF-8."""
    if block.lstrip().startswith(b"null") or _BARE_NULL.search(block):
        return None
    try:
        block.isascii() or block.decode()
        return pa.json.read_json(
            pa.BufferReader(block),
            read_options=pa.json.ReadOptions(block_size=len(block)),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema(list(fields.items())),
                unexpected_field_behavior="infer" if others else "ignore",
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
