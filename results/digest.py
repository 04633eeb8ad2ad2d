"""A digest over the values of a table: equal rows give equal digests, however they are stored.

Chunks, dictionaries, compression and Parquet's own bytes make no difference; order does.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGEST_BYTES = 16


def table_digest(table: pa.Table) -> str:
    """32 hexadecimal digits over names, types and values, column by column."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        digest.update(f"{name} {_kind(column.type)} {len(column)}\n".encode())
        _feed(digest, column.combine_chunks())
    return digest.hexdigest()


def _kind(of: pa.DataType) -> str:
    """A type without the names that Parquet gives to the items of a list."""
    return f"list of {_kind(of.value_type)}" if pa.types.is_list(of) else str(of)


def _feed(digest: "hashlib.blake2b", values: pa.Array) -> None:
    """Where values are null; then the others, and of varying lengths the lengths before them."""
    digest.update(np.packbits(np.asarray(values.is_valid())).tobytes())
    known = values.drop_null()
    if pa.types.is_list(known.type):
        _feed_numbers(digest, pc.list_value_length(known))
        _feed(digest, known.flatten())
    elif pa.types.is_string(known.type):
        _feed_numbers(digest, pc.binary_length(known))
        digest.update("".join(known.to_pylist()).encode())
    else:
        _feed_numbers(digest, known)


def _feed_numbers(digest: "hashlib.blake2b", values: pa.Array) -> None:
    numbers = np.asarray(values)
    digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
