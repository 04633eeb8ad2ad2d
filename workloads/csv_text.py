"""CSV to Arrow text columns, block by block; what the text means is the importer's business."""

import csv
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from schedbench.errors import TraceError
from schedbench.workloads.files import Source, faults
from schedbench.workloads.json_lines import in_lines
from schedbench.workloads.place import Place, shown

_BLOCK_BYTES = 1 << 24
_DELIMITERS = ",\t;"
_IS_DATA = re.compile(r"[-+\d.,:/TZ\s]*\d[-+\d.,:/TZeE\s]*")  # a number or a date
_LINE_END = re.compile("[\r\n]")
_NOT_UTF8 = re.compile(r"CSV column #\d+: Row #(\d+): .*invalid UTF8")
_BROKEN_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


def delimiter_of(header: str) -> str:
    """The likeliest of comma, tab and semicolon."""
    return max(_DELIMITERS, key=header.count)


def header_line(source: Source) -> str:
    """The first line, the byte order mark and line end taken off."""
    with faults(source.place):
        text = source.first_line().decode("utf-8-sig", errors="replace")
    return _LINE_END.split(text, maxsplit=1)[0]


def names_in(header: str) -> list[str]:
    """The columns that a header names; none if it cannot be one."""
    try:
        return next(csv.reader([header], delimiter=delimiter_of(header)), [])
    except csv.Error:
        return []


def read_csv_text(source: Source, names: Sequence[str]) -> Iterator[tuple[Place, pa.Table]]:
    """The named columns as text, the empty text where a value is missing. Raises TraceError."""
    header = header_line(source)
    if not set(names) <= set(names_in(header)):
        refuse_headless(source)
    refuse_missing(names, names_in(header), source.place)
    place = in_lines(source, skip_lines=1)
    with faults(place), source.stream() as stream:
        for batch in _batches(stream, names, delimiter_of(header), place):
            yield place, pa.Table.from_batches([batch])
            place = place.moved(batch.num_rows)


def refuse_headless(source: Source) -> None:
    """Raises TraceError where every name of a text file's first line looks like data."""
    header = header_line(source)
    names = [name.strip() for name in names_in(header)]
    if not names or not all(_IS_DATA.fullmatch(name) for name in names):
        return
    unit = "datetime" if "-" in names[0][1:] or "/" in names[0] else "s"
    raise source.place.refuse_input(
        f"has no header: its first line looks like data ({shown(header)})",
        "Put a line of names above it, one for each column, such as ts,isl,osl, and say which "
        f"they are: --map arrival=ts:{unit},prompt=isl,output=osl",
    )


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
    try:
        yield from pa.csv.open_csv(
            stream,
            # One thread: only so does Arrow say which row is broken.
            pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), include_columns=list(names)
            ),
        )
    except pa.ArrowInvalid as error:
        raise _named_row(str(error), place) or error from error


def _named_row(message: str, place: Place) -> TraceError | None:
    """Arrow's complaint in our words, if it is one about a row; it counts the header as row 1."""
    if broken := _BROKEN_ROW.search(message):
        number, wanted, given, text = broken.groups()
        found = f"has {given} values where the header has {wanted}: {shown(text)}"
    elif broken := _NOT_UTF8.search(message):
        number, found = broken[1], "is not UTF-8 text"
    else:
        return None
    where = place.row(int(number) - 2)
    return place.refuse_input(f"{where} {found}", "Correct or remove the row")
