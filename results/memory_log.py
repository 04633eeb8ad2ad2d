"""Tables that are not stored: for sweeps, tests, and code that wants the numbers only."""

from collections.abc import Sequence
from typing import Self

import pyarrow as pa

from schedbench.results.columns import Column
from schedbench.results.pass_log import (
    ITL_COLUMNS,
    PASS_COLUMNS,
    TIMING_COLUMNS,
    request_columns,
)
from schedbench.results.row_buffer import Row, RowBuffer


class MemoryLog:
    """As `PartWriter`, but `table()` instead of parts."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._buffer = RowBuffer(columns, self._batches.append)

    @property
    def rows(self) -> int:
        return self._buffer.rows

    def append(self, row: Row) -> None:
        self._buffer.append(row)

    def extend_columns(self, rows: int, values: Sequence[object]) -> None:
        self._buffer.extend_columns(rows, values)

    def close(self) -> None:
        self._buffer.flush()

    def table(self) -> pa.Table:
        """All rows so far."""
        self._buffer.flush()
        return pa.Table.from_batches(self._batches, schema=self._buffer.schema)


class MemoryRun:
    """The four tables of a run, kept in memory."""

    def __init__(self, wait_labels: Sequence[str] = ()) -> None:
        self.passes = MemoryLog(PASS_COLUMNS)
        self.timings = MemoryLog(TIMING_COLUMNS)
        self.requests = MemoryLog(request_columns(wait_labels))
        self.itl = MemoryLog(ITL_COLUMNS)

    def close(self) -> None:
        """Nothing follows; nothing has to be let go of."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has to be closed."""
