"""Traces on disk: Parquet, and its twin in JSON Lines with the same names."""

import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schedbench.errors import OutputError, UsageError
from schedbench.workloads.check import Checks
from schedbench.workloads.containers import PARQUET_MAGIC
from schedbench.workloads.exact import loose
from schedbench.workloads.files import Source, faults, find, open_parquet
from schedbench.workloads.json_form import json_lines
from schedbench.workloads.json_lines import read_json_lines
from schedbench.workloads.metadata import Metadata
from schedbench.workloads.parquet_form import write_options
from schedbench.workloads.place import Place, counted
from schedbench.workloads.schema import COLUMNS
from schedbench.workloads.trace import Trace, canonical

_ROW_GROUP_ROWS = 1 << 17


def read_trace(path: str | os.PathLike[str], *, limit: int | None = None) -> Trace:
    """A trace in the canonical schema, from a path or any URI that pyarrow knows.

    `limit` keeps the first rows only. Raises TraceError naming row, column and rule.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: keep at least one request")
    source = find(path)
    with faults(source.place):
        return _read(source, limit)


def _read(source: Source, limit: int | None) -> Trace:
    metadata, tables = _open(source)
    kept = list(tables) if limit is None else list(_first(tables, limit, source.place))
    if not kept:
        raise source.place.refuse_input("holds no requests", "A trace needs at least one row")
    try:
        table = pa.concat_tables(kept, promote_options="permissive")
    except pa.ArrowException as error:
        found = f"a column's type changes between parts ({error})"
        raise source.place.refuse_input(found, "Write one type throughout") from error
    return metadata.trace(table, source.uri, limit)


def _first(tables: Iterator[pa.Table], limit: int, place: Place) -> Iterator[pa.Table]:
    """The first rows; an error if there are fewer, since no row is ever made up."""
    rows = 0
    for table in tables:
        yield table.slice(0, limit - rows)
        rows = min(rows + table.num_rows, limit)
        if rows == limit:
            return
    found = f"holds {counted(rows, 'request')}, and {limit} were asked for"
    raise place.refuse_input(found, f"Use --limit {rows} or less")


def iter_row_groups(path: str | os.PathLike[str]) -> Iterator[pa.Table]:
    """The rows batch by batch, for traces larger than memory; checked as `read_trace` does."""
    source = find(path)
    metadata, tables = _open(source)
    checks = Checks.of(source.uri, metadata.hash_block_tokens)
    with faults(source.place):
        for table in tables:
            ready = canonical(table, source.uri, first_row=checks.rows)
            checks.feed(ready)
            yield ready
        checks.finish()


def _open(source: Source) -> tuple[Metadata, Iterator[pa.Table]]:
    with faults(source.place):
        if source.head(len(PARQUET_MAGIC)) == PARQUET_MAGIC:
            file = open_parquet(source)
            metadata = Metadata.from_parquet(file.metadata.metadata or {}, source.place)
            return metadata, _row_groups(file, source)
        metadata = Metadata.from_line(source.first_line(), source.place)
    return metadata, _json_tables(source, skip_lines=int(metadata.stands_in_line))


def _row_groups(file: pq.ParquetFile, source: Source) -> Iterator[pa.Table]:
    with faults(source.place):
        for index in range(file.num_row_groups):
            group = file.read_row_group(index)
            promised = file.metadata.row_group(index).num_rows
            if group.num_rows != promised:
                found = f"row group {index} has {group.num_rows} rows, its footer says {promised}"
                raise source.place.refuse_input(found, "The file is damaged: copy it again")
            yield group


def _json_tables(source: Source, skip_lines: int) -> Iterator[pa.Table]:
    fields = {column.name: loose(column.type) for column in COLUMNS}
    for _, table in read_json_lines(source, fields, others=True, skip_lines=skip_lines):
        yield table


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write Parquet, or JSON Lines if the name ends in `.jsonl`.

    The file gets its name only when it is complete. Raises OutputError when it cannot be.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.suffix == ".jsonl":
            _write_json_lines(trace, part)
        else:
            _write_parquet(trace, part)
        part.replace(target)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"{target}: cannot write the trace: {_reason(error)}") from error
    finally:
        part.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    """Without the name of the part file, which is no business of the reader's."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _write_parquet(trace: Trace, path: Path) -> None:
    table = trace.table.replace_schema_metadata(Metadata.of(trace).to_parquet(trace.digest))
    layout = write_options(table.schema)
    pq.write_table(table, path, row_group_size=_ROW_GROUP_ROWS, **layout)


def _write_json_lines(trace: Trace, path: Path) -> None:
    with path.open("wb") as file:
        file.write(orjson.dumps(Metadata.of(trace).to_line(trace.digest)) + b"\n")
        file.writelines(json_lines(trace.table))
