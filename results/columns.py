"""What a column of a run's tables is: its name, type, unit, meaning, and when it is null."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `null_when` empty: it never is, and a null there is a fault."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    null_when: str = ""

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, nullable=bool(self.null_when))


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([column.field for column in columns])


def number(name: str, meaning: str, null_when: str = "") -> Column:
    """A count without a unit, 32 bits."""
    return Column(name, pa.int32(), "", meaning, null_when)


def tokens(name: str, meaning: str, null_when: str = "") -> Column:
    return Column(name, pa.int32(), "tokens", meaning, null_when)


def blocks(name: str, meaning: str, null_when: str = "") -> Column:
    return Column(name, pa.int32(), "blocks", meaning, null_when)


def nanoseconds(name: str, meaning: str, null_when: str = "") -> Column:
    return Column(name, pa.int64(), "ns", meaning, null_when)


def label(name: str, meaning: str, null_when: str = "") -> Column:
    """One of a few strings; stored once each."""
    return Column(name, pa.dictionary(pa.int32(), pa.string()), "", meaning, null_when)
