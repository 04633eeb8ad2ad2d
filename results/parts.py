"""A table a part at a time, so that a run of any length is summed up in the memory of one part.

What is summed up so must not depend on where the parts end: sums of whole numbers are exact, and
what is divided is divided at the end.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schedbench.errors import RunStoreError
from schedbench.results.arrays import Ints, largest
from schedbench.results.columns import Column, schema_of

_Read = TypeVar("_Read")


class TableOnDisk:
    """The Parquet parts of a table, of which none is in memory until it is asked for."""

    def __init__(self, files: Sequence[Path], columns: Sequence[Column]) -> None:
        self._files = files
        self._columns = columns

    @property
    def column_names(self) -> list[str]:
        if not self._files:
            return [column.name for column in self._columns]
        return list(_reading(pq.read_schema, self._files[0]).names)

    @property
    def num_rows(self) -> int:
        return sum(_reading(pq.read_metadata, file).num_rows for file in self._files)

    def parts(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Each part, `names` of its columns where given. Raises RunStoreError at a damaged one."""
        if not self._files:
            yield self._nothing(names)
        for file in self._files:
            yield _read(file, names)

    def last(self, names: Sequence[str]) -> pa.Table:
        """The last part."""
        return _read(self._files[-1], names) if self._files else self._nothing(names)

    def whole(self, names: Sequence[str] | None = None) -> pa.Table:
        """All of it in memory."""
        return pa.concat_tables(self.parts(names))

    def _nothing(self, names: Sequence[str] | None) -> pa.Table:
        empty = schema_of(self._columns).empty_table()
        return empty if names is None else empty.select(names)


Rows: TypeAlias = pa.Table | TableOnDisk
"""A table to be summed up. One that is in memory is a single part."""


def parts(rows: Rows, names: Sequence[str]) -> Iterator[pa.Table]:
    """The parts with these columns, in order; at least one, which may be empty."""
    return rows.parts(names) if isinstance(rows, TableOnDisk) else iter((rows.select(names),))


def last_part(rows: Rows, names: Sequence[str]) -> pa.Table:
    return rows.last(names) if isinstance(rows, TableOnDisk) else rows.select(names)


def whole(rows: Rows) -> pa.Table:
    """All of it in memory."""
    return rows.whole() if isinstance(rows, TableOnDisk) else rows


def added_up(
    rows: Rows, names: Sequence[str], of: Callable[[pa.Table], Mapping[str, int]]
) -> Counter[str]:
    """What `of` finds in each part, added up by its keys."""
    found: Counter[str] = Counter()
    for part in parts(rows, names):
        found.update(of(part))
    return found


def largest_of(
    rows: Rows, names: Sequence[str], of: Callable[[pa.Table], Mapping[str, Ints]]
) -> dict[str, int | None]:
    """The largest value of each of the arrays that `of` makes of a part; None of nothing."""
    found: dict[str, int | None] = {}
    for part in parts(rows, names):
        for name, values in of(part).items():
            both = (found.get(name), largest(values))
            found[name] = max((value for value in both if value is not None), default=None)
    return found


def nulls(rows: Rows, names: Sequence[str]) -> Counter[str]:
    """How many nulls each column holds: vLLM's own class leaves some columns null."""
    return added_up(rows, names, lambda part: {n: part.column(n).null_count for n in names})


def distinct(rows: Rows, name: str) -> set[int]:
    """The different values of a column of whole numbers."""
    return {each for part in parts(rows, [name]) for each in pc.unique(part.column(0)).to_pylist()}


def _read(file: Path, names: Sequence[str] | None) -> pa.Table:
    columns = None if names is None else list(names)
    return _reading(partial(pq.read_table, columns=columns, partitioning=None), file)


def _reading(read: Callable[[Path], _Read], file: Path) -> _Read:
    try:
        return read(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise RunStoreError(f"{file} cannot be read: {error}. Run the replay again.") from error
