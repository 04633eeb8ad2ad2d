"""What an importer is, and what it hands over: rows under the schema's names, not yet in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schedbench.workloads.exact import exactly
from schedbench.workloads.files import Source
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.times import Clock
from schedbench.workloads.place import Place


@dataclass(frozen=True, slots=True)
class Published:
    """Where a format's public files come from, and what they ask for."""

    url: str
    licence: str
    attribution: str


@dataclass(frozen=True, slots=True)
class Draft:
    """`table` has one row per source row; its times are nanoseconds on the source's own clock.

    `after` holds source rows. Columns whose names begin with `_` are for `Importer.link` only.
    """

    table: pa.Table
    clock: Clock
    place: Place
    """The first row of the source, with its own names of columns."""
    hash_block_tokens: int | None = None


def _as_it_is(table: pa.Table, _draft: Draft, _report: Report) -> pa.Table:
    return table


@dataclass(frozen=True, slots=True)
class Importer:
    """One format: `read` names and types its columns, `link` ties rows together once sorted.

    `options` are those that only some formats understand, of which this one does.
    """

    name: str
    summary: str
    read: Callable[[Source, ImportOptions, Report], Draft]
    link: Callable[[pa.Table, Draft, Report], pa.Table] = _as_it_is
    options: frozenset[str] = frozenset()
    published: Published | None = None


@dataclass(slots=True)
class Batches:
    """Collects a file's batches column by column, and joins them into one table."""

    place: Place
    """The file; then its first row."""
    parts: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, place: Place, **columns: pa.ChunkedArray | npt.NDArray[Any]) -> None:
        if place.first_row == 0:
            self.place = place
        for name, values in columns.items():
            self.parts.setdefault(name, []).append(values)

    def table(self) -> pa.Table:
        if not self.parts:
            raise self.place.refuse_input("holds no requests", "A trace needs at least one row")
        return pa.table({name: _joined(parts) for name, parts in self.parts.items()})


def _joined(parts: Sequence[Any]) -> pa.ChunkedArray:
    if isinstance(parts[0], np.ndarray):
        return pa.chunked_array([pa.array(np.concatenate(parts))])
    chunks = [
        chunk
        for part in parts
        for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])
    ]
    return pa.chunked_array(chunks, parts[0].type)


def token_counts(values: pa.ChunkedArray, column: str, place: Place) -> pa.ChunkedArray:
    """A required column of counts; fractions, text and gaps are refused by row."""
    place.refuse_where(
        values.is_null().to_numpy(), column, lambda _row: "is missing", "Every request has a count"
    )
    return exactly(values, pa.int32(), column, place)
