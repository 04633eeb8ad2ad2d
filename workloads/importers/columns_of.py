"""Small changes to columns of a table, and to whole rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def with_columns(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        table = (
            replaced(table, name, values)
            if name in table.column_names
            else table.append_column(name, values)
        )
    return table


def nullable(values: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """-1 becomes null."""
    return pa.array(values, mask=values == -1)
