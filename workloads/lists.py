"""List columns rebuilt: other items in the same lists, or only their heads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.integer[Any]]


def map_items(column: pa.ChunkedArray, change: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """The same lists with every item replaced; `change` gets many items and keeps their number."""
    chunks = [_lists(chunk, _lengths(chunk), change(chunk.flatten())) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type)


def heads(column: pa.ChunkedArray, most: Ints) -> pa.ChunkedArray:
    """The first `most[row]` items of every list; null stays null."""
    chunks, row = [], 0
    for chunk in column.chunks:
        lengths = _lengths(chunk)
        kept = np.minimum(lengths, most[row : row + len(chunk)])
        position = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        items = chunk.flatten().filter(pa.array(position < np.repeat(kept, lengths)))
        chunks.append(_lists(chunk, kept, items))
        row += len(chunk)
    return pa.chunked_array(chunks, column.type)


def _lengths(chunk: pa.Array) -> Ints:
    lengths: Ints = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy()
    return lengths


def _lists(chunk: pa.Array, lengths: Ints, items: pa.Array) -> pa.Array:
    """`items` cut into lists of `lengths`, null where `chunk` is."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, items, type=chunk.type, mask=chunk.is_null())
