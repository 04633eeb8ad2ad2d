"""Any CSV, JSON Lines or Parquet whose columns the user names: `--map arrival=ts:ms,...`."""

from dataclasses import dataclass, field, replace

import numpy as np
import orjson
import pyarrow as pa

from schedbench.errors import UsageError
from schedbench.workloads.arrays import one_array
from schedbench.workloads.exact import exactly, is_text, loose
from schedbench.workloads.files import Source
from schedbench.workloads.importers.carriers import read_columns
from schedbench.workloads.importers.columns_of import with_columns
from schedbench.workloads.importers.draft import Batches, Draft, Importer, token_counts
from schedbench.workloads.importers.mapping import Mapped, resolve
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.sessions import in_sessions
from schedbench.workloads.importers.times import Clock
from schedbench.workloads.json_objects import column_of
from schedbench.workloads.place import Place, shown
from schedbench.workloads.schema import REQUIRED


@dataclass(slots=True)
class Reader:
    """One clock for each time column: their units may differ, durations above all."""

    tz: str | None
    clocks: dict[str, Clock] = field(default_factory=dict)

    def read(self, column: Mapped, values: pa.ChunkedArray, place: Place) -> pa.ChunkedArray:
        if column.is_time:
            return self._times(column, values, place)
        if column.target in REQUIRED:
            return token_counts(values, column.source, place)
        if column.target == "session":
            return exactly(values, pa.string(), column.source, place)
        if pa.types.is_nested(column.type) and is_text(values.type):
            values = _parsed(values, column, place)
        return exactly(values, column.type, column.source, place)

    def _times(self, column: Mapped, values: pa.ChunkedArray, place: Place) -> pa.ChunkedArray:
        clock = self.clocks.setdefault(column.target, self._clock(column, values.type))
        if column.target == "arrival_ns":
            return pa.chunked_array([pa.array(clock.read(values, column.source, place))])
        numbers, has_value = clock.read_known(values, column.source, place)
        return pa.chunked_array([pa.array(numbers, mask=~has_value)])

    def _clock(self, column: Mapped, arrow: pa.DataType) -> Clock:
        is_date = bool(pa.types.is_timestamp(arrow))
        if column.unit is None and not is_date:
            raise UsageError(
                f"--map: state the unit of {column.source!r}: "
                f"{column.source}:s, :ms, :us, :ns or :datetime"
            )
        if is_date and column.unit not in {None, "datetime"}:
            raise UsageError(f"--map: {column.source!r} holds dates, not {column.unit}")
        return Clock(column.unit or "datetime", self.tz if column.is_instant else None)


def read(source: Source, options: ImportOptions, _report: Report) -> Draft:
    wanted = resolve(options.mapping)
    if options.hash_block_tokens is None and any(c.target == "hash_ids" for c in wanted):
        raise UsageError("--map hash_ids needs --hash-block-tokens: how many tokens an id covers")
    reader, batches = Reader(options.tz), Batches(source.place)
    for place, table in read_columns(source, wanted):
        batches.add(
            place, **{c.target: reader.read(c, table.column(c.source), place) for c in wanted}
        )
    table = _with_structs(batches.table())
    clock = reader.clocks["arrival_ns"]
    if options.tz is not None and not clock.is_wall:
        raise UsageError(f"--tz {options.tz}: arrivals are numbers, and zones are for dates")
    place = replace(batches.place, names={c.target: c.source for c in wanted})
    return Draft(table, clock, place, options.hash_block_tokens)


def _parsed(values: pa.ChunkedArray, column: Mapped, place: Place) -> pa.ChunkedArray:
    """Lists and structs written as JSON text, the only way a CSV can hold them."""
    parsed = []
    for row, text in enumerate(values.to_pylist()):
        try:
            parsed.append(None if text is None else orjson.loads(text))
        except orjson.JSONDecodeError as error:
            remedy = "Write it as JSON, such as [1,2,3]"
            raise place.refuse(row, column.source, f"{shown(text)} is no list", remedy) from error
    return pa.chunked_array([column_of(parsed, column.source, loose(column.type), place)])


def _with_structs(table: pa.Table) -> pa.Table:
    """`observed.ttft_ns` and `observed.e2e_ns` become one struct, null where all fields are."""
    dotted = [name for name in table.column_names if "." in name]
    for column in dict.fromkeys(name.partition(".")[0] for name in dotted):
        fields = {
            n.partition(".")[2]: one_array(table.column(n))
            for n in dotted
            if n.startswith(f"{column}.")
        }
        absent = np.logical_and.reduce([np.asarray(child.is_null()) for child in fields.values()])
        struct = pa.StructArray.from_arrays(
            list(fields.values()), names=list(fields), mask=pa.array(absent)
        )
        table = with_columns(table, **{column: struct})
    return table.drop_columns(dotted)


def link(table: pa.Table, _draft: Draft, _report: Report) -> pa.Table:
    """Sessions get numbers by first appearance, and turns if the source does not count them."""
    if "session" not in table.column_names:
        return table
    numbered = in_sessions(table.column("session")).columns()
    if "turn" in table.column_names:
        del numbered["turn"]
    return with_columns(table, **numbered)


COLUMNS = Importer(
    name="columns",
    summary="any CSV, JSON Lines or Parquet, its columns named with --map",
    read=read,
    link=link,
    options=frozenset({"tz", "hash_block_tokens", "mapping"}),
)
