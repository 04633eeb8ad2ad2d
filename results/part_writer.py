"""A table on disk as Parquet parts, each complete before it gets its name.

A part is written under a temporary name, forced to disk and then renamed, so a killed run loses
at most the part that was being filled or written. Compression runs on a thread of its own.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from schedbench.results.columns import Column
from schedbench.results.files import writing
from schedbench.results.row_buffer import BATCH_ROWS, Row, RowBuffer

PART_ROWS: Final = 65536
PART_GLOB: Final = "part-*.parquet"
KEPT_BYTES: Final = 100_000_000
"""Of a table, that stay in memory as well, so that a run of usual length is not read back."""


class PartWriter:
    """Writes rows of `columns` to `folder`, about `rows_per_part` to a file.

    Raises OutputError where the folder cannot be written: at the latest in `close`.
    """

    def __init__(
        self, folder: Path, columns: Sequence[Column], rows_per_part: int = PART_ROWS
    ) -> None:
        self._folder = folder
        self._rows_per_part = rows_per_part
        self._batches: list[pa.RecordBatch] = []
        self._batched_rows = 0
        self._parts = 0
        self._kept: list[pa.Table] | None = []
        self._kept_bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._in_flight: Future[None] | None = None
        self._buffer = RowBuffer(columns, self._collect, min(BATCH_ROWS, rows_per_part))

    @property
    def rows(self) -> int:
        return self._buffer.rows

    def kept(self) -> pa.Table | None:
        """All rows, once closed; None where they are too many to be kept in memory."""
        return None if self._kept is None else pa.concat_tables(self._kept)

    def append(self, row: Row) -> None:
        self._buffer.append(row)

    def extend_columns(self, rows: int, values: Sequence[object]) -> None:
        self._buffer.extend_columns(rows, values)

    def close(self) -> None:
        """Write what is left; an empty table gets one empty part, so that its columns are known."""
        self._buffer.flush()
        try:
            self._await_part()
            if self._batches or not self._parts:
                write_part(self._part_path(), self._take())
        finally:
            if self._thread is not None:
                self._thread.shutdown()

    def _collect(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._batched_rows += batch.num_rows
        if self._in_flight is not None and self._in_flight.done():
            self._await_part()
        if self._batched_rows >= self._rows_per_part:
            self._await_part()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._folder.name)
            self._in_flight = self._thread.submit(write_part, self._part_path(), self._take())

    def _await_part(self) -> None:
        part, self._in_flight = self._in_flight, None
        if part is not None:
            part.result()

    def _part_path(self) -> Path:
        self._parts += 1
        return self._folder / f"part-{self._parts - 1:06d}.parquet"

    def _take(self) -> pa.Table:
        table = pa.Table.from_batches(self._batches, schema=self._buffer.schema)
        self._batches, self._batched_rows = [], 0
        if self._kept is not None:
            self._kept.append(table)
            self._kept_bytes += table.nbytes
            if self._kept_bytes > KEPT_BYTES:
                self._kept = None
        return table


def write_part(path: Path, table: pa.Table) -> None:
    """One part; `path` exists only once it is whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    labels = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    numbers = [field.name for field in table.schema if pa.types.is_signed_integer(field.type)]
    with writing(path):
        pq.write_table(
            table.unify_dictionaries(),
            temporary,
            compression="lz4",  # quicker than zstd, and little larger
            use_dictionary=labels,
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            write_statistics=False,
        )
        _to_disk(temporary)
        temporary.replace(path)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
