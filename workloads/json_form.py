"""The canonical JSON Lines form: columns in schema order, nulls left out, no spaces.

Built by joining strings column by column, so that millions of rows take seconds. A digest is
taken over exactly these bytes, and the JSON Lines twin of a trace holds them.
"""

import hashlib
from collections.abc import Iterator

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.schema import BY_NAME, COLUMNS, META_HASH_BLOCK

_ROWS_AT_ONCE = 65_536
_NESTED_ROWS_AT_ONCE = 4_096  # long id lists: the joined text must stay below 2 GiB


def digest_of(table: pa.Table, hash_block_tokens: int | None) -> str:
    """`sha256:` over the lines of the schema's own columns.

    Traces with prefix ids put their block size on a line of its own in front, since equal ids
    at another size mean something else. Unknown columns, epoch and provenance play no part.
    """
    named = [column.name for column in COLUMNS if column.name in table.column_names]
    running = hashlib.sha256()
    if hash_block_tokens is not None:
        running.update(orjson.dumps({META_HASH_BLOCK: hash_block_tokens}) + b"\n")
    for lines in json_lines(table.select(named)):
        running.update(lines)
    return f"sha256:{running.hexdigest()}"


def json_lines(table: pa.Table) -> Iterator[bytes]:
    """The rows as JSON Lines, some thousands at a time, each line ended by a newline."""
    flat = all(name in BY_NAME and BY_NAME[name].is_flat for name in table.column_names)
    rows = _ROWS_AT_ONCE if flat else _NESTED_ROWS_AT_ONCE
    for start in range(0, table.num_rows, rows):
        batch = table.slice(start, rows).combine_chunks()
        columns = [_one_chunk(column) for column in batch.columns]
        fields = _object_of(batch.column_names, columns, batch.num_rows)
        yield _text_bytes(pc.binary_join_element_wise(fields, "\n", ""))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _object_of(names: list[str], columns: list[pa.Array], rows: int) -> pa.Array:
    """`{"a":1,"b":2}` for each row; a null value leaves its field out."""
    pieces = [
        pc.fill_null(pc.binary_join_element_wise(f",{_key(name)}:", _encoded(column), ""), "")
        for name, column in zip(names, columns, strict=True)
    ]
    empty = pa.array([""]).take(pa.array([0] * rows, pa.int64()))
    fields = pc.utf8_ltrim(pc.binary_join_element_wise(empty, *pieces, ""), ",")
    return pc.binary_join_element_wise("{", fields, "}", "")


def _key(name: str) -> str:
    return orjson.dumps(name).decode()


def _encoded(values: pa.Array) -> pa.Array:
    """JSON text of every value, null where the value is null."""
    arrow = values.type
    if pa.types.is_dictionary(arrow):
        return _by_value(values.cast(arrow.value_type))
    if pa.types.is_integer(arrow) or pa.types.is_boolean(arrow):
        return values.cast(pa.string())
    if pa.types.is_list(arrow):
        return _encoded_lists(values)
    if pa.types.is_struct(arrow):
        text = _object_of([field.name for field in arrow], values.flatten(), len(values))
        return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
    return _by_value(values)


def _encoded_lists(values: pa.Array) -> pa.Array:
    items = _encoded(values.flatten())
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], lengths.type), lengths]))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")
    text = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _by_value(values: pa.Array) -> pa.Array:
    """Text, fractions and foreign types: each distinct value is written once."""
    coded = values.dictionary_encode()
    written = [orjson.dumps(value, default=str).decode() for value in coded.dictionary.to_pylist()]
    return pa.array(written, pa.string()).take(coded.indices)


def _text_bytes(lines: pa.Array) -> bytes:
    """The lines end to end: an Arrow string array without nulls holds them so already."""
    _, offsets, data = lines.buffers()
    if data is None:
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]])
