"""CSV to Arrow text columns, block by block; what the text means is the importer's business."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv

from schedbench.workloads.files import Source, faults
from schedbench.workloads.json_lines import in_lines
from schedbench.workloads.place import Place, shown

_BLOCK_BYTES = 1 << 24
_DELIMITERS = ",\t;"


def delimiter_of(header: str) -> str:
    """The likeliest of comma, tab and semicolon."""
    return max(_DELIMITERS, key=header.count)


def header_line(source: Source) -> str:
    """The first line, the byte order mark and line end taken off."""
    with faults(source.place):
        return source.first_line().decode("utf-8-sig", errors="replace").rstrip("\r\n")


def names_in(header: str) -> list[str]:
    return next(csv.reader([header], delimiter=delimiter_of(header)), [])


def read_csv_text(source: Source, names: Sequence[str]) -> Iterator[tuple[Place, pa.Table]]:
    """The named columns as text, the empty text where a value is missing. Raises TraceError."""
    header = header_line(source)
    refuse_missing(names, names_in(header), source.place)
    place = in_lines(source, skip_lines=1)
    with faults(place), source.stream() as stream:
        for batch in _batches(stream, names, delimiter_of(header), place):
            yield place, pa.Table.from_batches([batch])
            place = place.moved(batch.num_rows)


def refuse_missing(names: Sequence[str], found: Sequence[str], place: Place) -> None:
    if missing := [name for name in names if name not in found]:
        listed = ", ".join(found)
        raise place.refuse_input(
            f"has no column {missing[0]!r}; its columns are {listed}",
            "Check the format, or name the columns with --map",
        )
    if twice := [name for name in names if list(found).count(name) > 1]:
        raise place.refuse_column(twice[0], "stands there twice", "Rename one")


def _batches(
    stream: pa.NativeFile, names: Sequence[str], delimiter: str, place: Place
) -> Iterator[pa.RecordBatch]:
    broken: list[pa.csv.InvalidRow] = []

    def stop_at(row: pa.csv.InvalidRow) -> str:
        broken.append(row)
        return "error"

    try:
        yield from pa.csv.open_csv(
            stream,
            pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            pa.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=stop_at
            ),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), include_columns=list(names)
            ),
        )
    except pa.ArrowInvalid as error:
        if not broken:
            raise
        row = broken[0]
        absolute = replace(place, first_row=0)
        found = (
            f"{absolute.row(row.number - 2)} has {row.actual_columns} values where the header has "
            f"{row.expected_columns}: {shown(row.text)}"
        )
        raise absolute.refuse_input(found, "Correct or remove the row") from error
