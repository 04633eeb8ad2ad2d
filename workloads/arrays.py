"""NumPy views of a trace table's columns."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.schema import BY_NAME

Integers = npt.NDArray[np.integer[Any]]
Offsets = npt.NDArray[np.int64]


def integers(table: pa.Table, name: str) -> Integers | None:
    """A flat column with every null replaced by what the schema says it stands for.

    That is another column (`max_tokens` -> `output_tokens`), a number (`priority` -> 0), or
    `NOT_KNOWN`. None when the table has no such column.
    """
    if name not in table.column_names:
        return None
    values = table.column(name)
    if values.null_count:
        stands_for = BY_NAME[name].when_null
        if isinstance(stands_for, str):
            values = pc.coalesce(values, table.column(stands_for))
        else:
            values = pc.fill_null(values, pa.scalar(stands_for, values.type))
    return cast("Integers", values.to_numpy())


def required(table: pa.Table, name: str) -> Integers:
    values = integers(table, name)
    if values is None:
        raise KeyError(name)
    return values


def known(table: pa.Table, name: str) -> npt.NDArray[np.bool_] | None:
    """Which rows have a value of their own; None when the column is absent."""
    if name not in table.column_names:
        return None
    return cast("npt.NDArray[np.bool_]", table.column(name).is_valid().to_numpy())


def one_array(values: pa.ChunkedArray) -> pa.Array:
    """The column as one contiguous array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def ragged(values: pa.ChunkedArray) -> tuple[Offsets, pa.Array]:
    """A list column as row offsets (one more than rows) and its items laid end to end."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, one_array(pc.list_flatten(values))
