"""Golden logs, format schedbench-oracle/1: gzipped JSON lines of header, requests and passes."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from schedbench.errors import TraceError

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GoldenLog:
    """One scenario; `passes` is empty where it was never run."""

    header: Row
    requests: list[Row]
    passes: list[Row] = field(default_factory=list)

    @property
    def config(self) -> Row:
        flags: Row = self.header["config"]
        return flags

    @property
    def has_queue_contents(self) -> bool:
        """Slices of public traces leave out the columns `wait*`, `skip*` and `freeq2`."""
        first = self.passes[0] if self.passes else {}
        return not first or "ends" in first or "wait1" in first


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two logs part: `column` of pass `index`, or a whole-log fact with index None."""

    index: int | None
    column: str
    left: object
    right: object

    def __str__(self) -> str:
        where = "log" if self.index is None else f"pass {self.index}"
        return f"{where}, {self.column}: {self.left!r} != {self.right!r}"


def read_log(path: Path) -> GoldenLog:
    """Raises TraceError for what is no golden log."""
    try:
        return _read(path)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise TraceError(
            f"{path}: cannot be read as a golden log, gzipped JSON lines: {error}. Check the file"
        ) from error


def _read(path: Path) -> GoldenLog:
    log = GoldenLog({}, [])
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            match json.loads(line):
                case {"pass": row}:
                    log.passes.append(row)
                case {"request": row}:
                    log.requests.append(row)
                case {"header": header}:
                    log.header.update(header)
                case _:
                    raise TraceError(
                        f"{path}, line {number}: a golden log holds objects with one key: "
                        "header, request or pass"
                    )
    if "config" not in log.header:
        raise TraceError(f"{path}: no header line with a config; is it a golden log?")
    return log


def write_log(path: Path, log: GoldenLog) -> None:
    """Equal logs give equal bytes: the gzip header carries neither time nor name."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        for line in _lines(log):
            packed.write(line.encode())


def _lines(log: GoldenLog) -> Iterator[str]:
    kinds: tuple[tuple[str, Iterable[Row]], ...] = (
        ("header", [log.header]),
        ("request", log.requests),
        ("pass", log.passes),
    )
    for kind, rows in kinds:
        for row in rows:
            yield json.dumps({kind: row}, separators=(",", ":")) + "\n"


def first_difference(left: GoldenLog, right: GoldenLog) -> Difference | None:
    """Compare every column of every pass, then the statistics of the header."""
    for index, (a, b) in enumerate(zip_longest(left.passes, right.passes)):
        if a is None or b is None:
            return Difference(None, "number of passes", len(left.passes), len(right.passes))
        for column in sorted(a.keys() | b.keys()):
            if a.get(column) != b.get(column):
                return Difference(index, column, a.get(column), b.get(column))
    a, b = left.header.get("stats"), right.header.get("stats")
    return None if a == b else Difference(None, "stats", a, b)
