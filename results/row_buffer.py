"""Rows in, Arrow batches out: where the tables' speed is decided.

A pass appends one tuple; every few thousand rows the tuples are turned into columns at once.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from schedbench.errors import InvariantError
from schedbench.results.columns import Column, schema_of

Row: TypeAlias = tuple[object, ...]

BATCH_ROWS: Final = 4096
"""Rows turned into columns at once: few enough to stay in a core's cache as Python objects."""

_MOST_CONSTANT: Final = 2**17
"""Rows up to which a constant column is a slice of one that is made once."""

_WORTH_A_BATCH: Final = 256
"""Rows in a chunk of columns below which tuples cost less than a batch of its own."""


class Log(Protocol):
    """Where the rows of one table go."""

    @property
    def rows(self) -> int:
        """How many rows there are so far."""

    def append(self, row: Row) -> None:
        """One row, a value for each column in order. A victim list is a tuple."""

    def extend_columns(self, rows: int, values: Sequence[object]) -> None:
        """`rows` rows at once: for each column an array of that length, or its constant value."""

    def close(self) -> None:
        """Nothing follows."""


class RowBuffer:
    """Collects rows of `columns` and hands them to `sink` batch by batch, in order."""

    def __init__(
        self,
        columns: Sequence[Column],
        sink: Callable[[pa.RecordBatch], None],
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self.schema = schema_of(columns)
        self._sink = sink
        self._batch_rows = batch_rows
        self._pending: list[Row] = []
        self._handed_over = 0

    @property
    def rows(self) -> int:
        return self._handed_over + len(self._pending)

    def append(self, row: Row) -> None:
        pending = self._pending
        pending.append(row)
        if len(pending) >= self._batch_rows:
            self.flush()

    def extend_columns(self, rows: int, values: Sequence[object]) -> None:
        if rows < _WORTH_A_BATCH:
            self._pending.extend(zip(*_row_wise(rows, values), strict=False))
            if len(self._pending) >= self._batch_rows:
                self.flush()
            return
        self.flush()
        self._hand_over([_array(rows, value, field) for value, field in self._typed(values)])

    def flush(self) -> None:
        """Hand over what is pending."""
        if not self._pending:
            return
        columns = zip(*self._pending, strict=True)
        self._pending = []
        self._hand_over([pa.array(value, field.type) for value, field in self._typed(columns)])

    def _typed(self, values: Iterable[Any]) -> Iterable[tuple[Any, pa.Field]]:
        return zip(values, self.schema, strict=True)

    def _hand_over(self, arrays: list[pa.Array]) -> None:
        for array, field in zip(arrays, self.schema, strict=True):
            if array.null_count and not field.nullable:
                raise InvariantError(f"a null in column {field.name}, which never holds one")
        self._handed_over += len(arrays[0])
        self._sink(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


def _row_wise(rows: int, values: Sequence[object]) -> list[Iterable[object]]:
    """Arrays as lists, constants repeated."""
    return [
        value.tolist() if isinstance(value, np.ndarray) else _each(value, rows) for value in values
    ]


def _each(value: object, rows: int) -> Iterable[object]:
    return value.to_pylist() if isinstance(value, pa.Array) else repeat(value, rows)


def _array(rows: int, value: object, field: pa.Field) -> pa.Array:
    if isinstance(value, np.ndarray):
        return pa.array(value, field.type)
    if isinstance(value, pa.Array):
        return value.cast(field.type)
    if rows > _MOST_CONSTANT:
        return _repeat(value, field.type, rows)
    return _constant(value, field.type).slice(0, rows)


@lru_cache(maxsize=32)
def _constant(value: object, of_type: pa.DataType) -> pa.Array:
    return _repeat(value, of_type, _MOST_CONSTANT)


def _repeat(value: object, of_type: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, of_type), rows)
