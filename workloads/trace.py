"""A trace: the checked table of requests, and what is known about where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from schedbench.workloads.arrays import Integers, integers
from schedbench.workloads.check import check_table
from schedbench.workloads.exact import exactly, loose
from schedbench.workloads.json_form import digest_of
from schedbench.workloads.place import Place, listed
from schedbench.workloads.schema import BY_NAME, COLUMNS, REQUIRED


@dataclass(frozen=True, eq=False)
class Trace:
    """One request a row, in schema order; checked when it is made, never changed after.

    `hash_block_tokens` is the number of tokens an id of `hash_ids` covers, `epoch_ns` the Unix
    time of `arrival_ns` 0. Unknown columns stand at the end of `table` and are kept. Raises
    TraceError for the first row that breaks a rule.
    """

    table: pa.Table
    hash_block_tokens: int | None = None
    epoch_ns: int | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    path: str | None = None
    stored_digest: str | None = None
    """The digest that the file claims; `digest` is always taken over the rows."""

    def __post_init__(self) -> None:
        source = self.path or "trace"
        table = canonical(self.table, source)
        check_table(table, self.hash_block_tokens, source)
        object.__setattr__(self, "table", table)
        if "hash_ids" not in table.column_names:
            object.__setattr__(self, "hash_block_tokens", None)

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Any],
        *,
        hash_block_tokens: int | None = None,
        epoch_ns: int | None = None,
        provenance: dict[str, Any] | None = None,
    ) -> "Trace":
        """From lists, NumPy or Arrow arrays by column name; None stands for null."""
        arrays = {name: to_arrow(name, values) for name, values in columns.items()}
        return cls(pa.table(arrays), hash_block_tokens, epoch_ns, dict(provenance or {}))

    @classmethod
    def of(cls, given: object) -> "Trace":
        """A trace as it is, or made of a table: pandas, Arrow, or a mapping of columns.

        Raises:
            TypeError: it is none of these.
            TraceError: the columns are not those of a trace.
        """
        if isinstance(given, Trace):
            return given
        if isinstance(given, Mapping):
            return cls.from_columns(given)
        if hasattr(given, "__arrow_c_stream__"):
            table = pa.table(given)
            names = [name for name in table.column_names if not name.startswith("__index")]
            return cls.from_columns({name: table[name].combine_chunks() for name in names})
        raise TypeError(
            "a trace is what schedbench.load_trace returns, or a table with the columns "
            f"arrival_ns, prompt_tokens and output_tokens; this is a {type(given).__name__}"
        )

    def with_table(self, table: pa.Table, step: Mapping[str, Any], *, shift_ns: int = 0) -> "Trace":
        """The trace after a transform, which `step` describes and provenance records.

        `shift_ns`: how much later than before `arrival_ns` 0 now lies, for the epoch.
        """
        steps = [*self.provenance.get("transforms", []), dict(step)]
        epoch_ns = None if self.epoch_ns is None else self.epoch_ns + shift_ns
        provenance = {**self.provenance, "transforms": steps}
        return Trace(table, self.hash_block_tokens, epoch_ns, provenance)

    @property
    def num_requests(self) -> int:
        return int(self.table.num_rows)

    @property
    def unknown_columns(self) -> list[str]:
        """Columns that are no part of the schema: kept, and without effect on a replay."""
        return [name for name in self.table.column_names if name not in BY_NAME]

    @cached_property
    def digest(self) -> str:
        """`sha256:` over the canonical JSON Lines form; independent of files and encoders."""
        return digest_of(self.table, self.hash_block_tokens)

    def has(self, name: str) -> bool:
        return name in self.table.column_names

    def column(self, name: str) -> Integers | None:
        """A flat integer column, nulls replaced by what they stand for; None when absent.

        A null is another column's value (`max_tokens` -> `output_tokens`), a number
        (`priority` -> 0) or, where it means "none", -1.
        """
        return integers(self.table, name)


def canonical(table: pa.Table, source: str, *, first_row: int = 0) -> pa.Table:
    """The table with its columns in schema order and types, empty ones left out.

    Raises TraceError where a required column is missing or a value would be changed.
    """
    names = table.column_names
    place = Place(source, first_row)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise place.refuse_column(twice, "stands there twice", "Drop or rename one")
    if missing := [name for name in REQUIRED if name not in names]:
        found = f"lacks the required column {missing[0]}; it has {listed(names) or 'none'}"
        raise place.refuse_input(found, "Add it, or import the file with --map")
    arrays = {
        column.name: exactly(table.column(column.name), column.type, column.name, place)
        for column in COLUMNS
        if column.name in names and _is_used(table, column.name)
    }
    arrays |= {name: table.column(name) for name in names if name not in BY_NAME}
    return pa.table(arrays)


def _is_used(table: pa.Table, name: str) -> bool:
    return name in REQUIRED or table.column(name).null_count < table.num_rows


def to_arrow(name: str, values: Any) -> pa.Array:  # noqa: ANN401 - whatever Arrow can hold
    """Lists, NumPy or Arrow arrays for a column; None stands for null."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    arrow = BY_NAME[name].type if name in BY_NAME else None
    try:
        return pa.array(values, loose(arrow) if arrow and pa.types.is_nested(arrow) else None)
    except (pa.ArrowException, OverflowError) as error:
        found, remedy = str(error), "Use values of one type, each as the schema has it"
        raise Place("trace").refuse_column(name, found, remedy) from error
