"""CSV to Arrow text columns, block by block; what the text means is the importer's business.

Arrow's parser takes a quote that is never closed for a value that goes on to the end of the file,
and text behind a closing quote for a part of the value. So every block is held to RFC 4180 before
it is parsed, and to one rule more: a quoted value ends on its line. Then a line is a row.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from schedbench.errors import TraceError
from schedbench.workloads.files import Source, faults
from schedbench.workloads.json_lines import in_lines
from schedbench.workloads.place import Place, listed, shown

_BLOCK_BYTES = 1 << 24
_DELIMITERS = ",\t;|"
_IS_DATA = re.compile(r"[-+\d.,:/TZ\s]*\d[-+\d.,:/TZeE\s]*")  # a number or a date
_LINE_END = re.compile("[\r\n]")
_NOT_UTF8 = re.compile(r"CSV column #\d+: Row #(\d+): .*invalid UTF8")
_BROKEN_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_QUOTE, _NEWLINE = 34, 10
Positions = npt.NDArray[np.int64]


def delimiter_of(header: str) -> str:
    """The likeliest of comma, tab, semicolon and bar."""
    return max(_DELIMITERS, key=header.count)


def header_line(source: Source) -> str:
    """The first line, the byte order mark and line end taken off."""
    with faults(source.place):
        line = source.first_line()
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"line 1 is not UTF-8 text: {shown(line[error.start : error.start + 8])}"
        raise source.place.refuse_input(found, "Write the file in UTF-8") from error
    return _LINE_END.split(text, maxsplit=1)[0]


def names_in(header: str) -> list[str]:
    """The columns that a header names, blanks around them taken off; none if it cannot be one."""
    try:
        names = next(
            csv.reader([header], delimiter=delimiter_of(header), skipinitialspace=True), []
        )
    except csv.Error:
        return []
    return [name.strip() for name in names]


def read_csv_text(source: Source, names: Sequence[str]) -> Iterator[tuple[Place, pa.Table]]:
    """The named columns as text, the empty text where a value is missing. Raises TraceError."""
    header = header_line(source)
    found = names_in(header)
    if not set(names) <= set(found):
        refuse_headless(source)
    refuse_missing(names, found, source.place)
    place, lines = in_lines(source, skip_lines=1), 1
    delimiter = delimiter_of(header)
    with faults(place):
        first = source.first_line().removeprefix(_BYTE_ORDER_MARK)
        _refuse_broken_text(first, delimiter, 1, source.place)
        for block in _blocks(source):
            _refuse_broken_text(block, delimiter, lines + 1, source.place)
            table = _parsed(block, found, names, delimiter, place)
            yield place, table
            place, lines = place.moved(table.num_rows), lines + block.count(b"\n")


def refuse_headless(source: Source) -> None:
    """Raises TraceError where every name of a text file's first line looks like data."""
    header = header_line(source)
    names = names_in(header)
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
        raise place.refuse_input(
            f"has no column {shown(missing[0])}{_near(missing[0], found)}; "
            f"its columns are {listed(found)}",
            "Check the format, or name the columns with --map",
        )
    if twice := [name for name in names if list(found).count(name) > 1]:
        raise place.refuse_column(twice[0], "stands there twice", "Rename one")


def _near(name: str, found: Sequence[str]) -> str:
    near = get_close_matches(name, found, n=1)
    return f", but {shown(near[0])}" if near else ""


def _blocks(source: Source) -> Iterator[bytes]:
    """The lines behind the header, whole lines, some megabytes at a time."""
    with source.stream() as stream, io.BufferedReader(stream, _BLOCK_BYTES) as lines:
        lines.readline()
        while block := lines.read(_BLOCK_BYTES):
            yield block if block.endswith(b"\n") else block + lines.readline()


def _refuse_broken_text(block: bytes, delimiter: str, first_line: int, place: Place) -> None:
    """Raises TraceError for the first byte that Arrow's parser would take in silence."""

    def refuse(at: int, found: str, remedy: str) -> TraceError:
        start = block.rfind(b"\n", 0, at) + 1
        line = block[start : start + 200].split(b"\n")[0].decode(errors="replace")
        number = first_line + block.count(b"\n", 0, at)
        return place.refuse_input(f"line {number} {found}: {shown(line)}", remedy)

    if (at := block.find(b"\x00")) >= 0:
        raise refuse(at, "holds a NUL byte", "The file is damaged or in another encoding")
    if b"\r" in block and (lone := _LONE_RETURN.search(block)):
        found = "holds a carriage return that ends no line"
        raise refuse(lone.start(), found, "End lines with a newline: tr '\\r' '\\n' < FILE")
    if b'"' in block and (broken := _broken_quote(block, delimiter)):
        raise refuse(*broken, "Quote a value as a whole, with quotes inside it doubled, or not")


def _broken_quote(block: bytes, delimiter: str) -> tuple[int, str] | None:
    """The first quote that is against the rules, and which rule.

    a,"b ""c"" d",e        quotes of a line, by turns: open, close, open, close, ...
      o    co co  c        of two that stand together the second reopens the value
    """
    data = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    ends = np.flatnonzero(data == _NEWLINE)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    before = np.searchsorted(quotes, ends)  # quotes up to each line's end
    odd = np.flatnonzero(np.diff(before, prepend=0) % 2)
    whole = int(before[odd[0] - 1]) if odd.size and odd[0] else 0 if odd.size else quotes.size
    opening, closing = quotes[:whole:2], quotes[1:whole:2]
    around = np.concatenate(([_NEWLINE], data, [_NEWLINE]))
    outside = np.array([ord(delimiter), _NEWLINE, ord("\r")], np.uint8)
    starts = np.isin(around[opening], outside)
    starts[1:] |= opening[1:] == closing[:-1] + 1
    stops = np.isin(around[closing + 2], outside)
    stops[:-1] |= opening[1:] == closing[:-1] + 1
    found = [
        (int(places[~good][0]), why)
        for places, good, why in (
            (opening, starts, "has a quote within a value that is not quoted"),
            (closing, stops, "has text behind the quote that ends a value"),
        )
        if not good.all()
    ]
    if odd.size:
        last = int(before[odd[0]]) - 1
        found.append((int(quotes[last]), "has a quote that is not closed on its line"))
    return min(found) if found else None


def _parsed(
    block: bytes, columns: Sequence[str], names: Sequence[str], delimiter: str, place: Place
) -> pa.Table:
    numbered = [str(at) for at in range(len(columns))]  # a name may stand there twice
    wanted = [str(columns.index(name)) for name in names]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(block),
            # One thread: only so does Arrow say which row is broken.
            pa.csv.ReadOptions(block_size=len(block) + 1, use_threads=False, column_names=numbered),
            pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=False),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted
            ),
        )
    except pa.ArrowInvalid as error:
        raise _named_row(str(error), place) or error from error
    return table.rename_columns(list(names))


def _named_row(message: str, place: Place) -> TraceError | None:
    """Arrow's complaint in our words, if it is one about a row."""
    if broken := _BROKEN_ROW.search(message):
        number, wanted, given, text = broken.groups()
        found = f"has {given} values where the header has {wanted}: {shown(text)}"
    elif broken := _NOT_UTF8.search(message):
        number, found = broken[1], "is not UTF-8 text"
    else:
        return None
    where = place.row(int(number) - 1)
    return place.refuse_input(f"{where} {found}", "Correct or remove the row")
