"""Named columns out of CSV, JSON Lines or Parquet, batch by batch, as like as they can be."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.csv_text import read_csv_text, refuse_missing
from schedbench.workloads.exact import loose
from schedbench.workloads.files import Source, faults, open_parquet
from schedbench.workloads.importers.mapping import Mapped
from schedbench.workloads.importers.times import JSON_TIME
from schedbench.workloads.json_lines import first_object, read_json_lines
from schedbench.workloads.place import Place
from schedbench.workloads.sniff import kind_of


def read_columns(source: Source, wanted: Sequence[Mapped]) -> Iterator[tuple[Place, pa.Table]]:
    """Tables of the wanted source columns; an empty CSV value is null."""
    names = list(dict.fromkeys(column.source for column in wanted))
    match kind_of(source):
        case "csv":
            for place, table in read_csv_text(source, names):
                yield place, _empty_as_null(table)
        case "jsonl":
            yield from read_json_lines(source, _json_types(source, wanted))
        case _:
            yield from _read_parquet(source, names)


def _empty_as_null(table: pa.Table) -> pa.Table:
    null = pa.scalar(None, pa.string())
    columns = [pc.if_else(pc.equal(column, ""), null, column) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _read_parquet(source: Source, names: list[str]) -> Iterator[tuple[Place, pa.Table]]:
    place = source.place
    with faults(place):
        file = open_parquet(source)
        refuse_missing(names, file.schema_arrow.names, place)
        for batch in file.iter_batches(columns=names):
            table = pa.Table.from_batches([batch])
            yield place, table.select(names)
            place = place.moved(table.num_rows)


def _json_types(source: Source, wanted: Sequence[Mapped]) -> dict[str, pa.DataType]:
    """What to parse each field to, judged by the first line; Arrow alone would guess dates."""
    first = first_object(source)
    refuse_missing([c.source for c in wanted if c.target in _REQUIRED], list(first), source.place)
    return {column.source: _json_type(column, first.get(column.source)) for column in wanted}


_REQUIRED = ("arrival_ns", "prompt_tokens", "output_tokens")


def _json_type(column: Mapped, example: Any) -> pa.DataType:  # noqa: ANN401 - any JSON value
    if isinstance(example, str):
        return pa.string()
    if column.is_time:
        return JSON_TIME
    if isinstance(example, int) or column.target == "session":
        return pa.int64()
    return loose(column.type)
