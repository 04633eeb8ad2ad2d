"""What a trace file says of itself, as Parquet key-values or as a first JSON line."""

from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.place import Place, shown
from schedbench.workloads.schema import (
    META_DIGEST,
    META_EPOCH,
    META_HASH_BLOCK,
    META_PROVENANCE,
    META_SCHEMA,
    META_VERSION,
    METADATA,
    SCHEMA_NAME,
    SCHEMA_VERSION,
)
from schedbench.workloads.trace import Trace


@dataclass(frozen=True, slots=True)
class Metadata:
    """A file without any is taken for version 1.0, so that a trace can be typed by hand."""

    hash_block_tokens: int | None = None
    epoch_ns: int | None = None
    digest: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    stands_in_line: bool = False

    @classmethod
    def of(cls, trace: Trace) -> "Metadata":
        return cls(trace.hash_block_tokens, trace.epoch_ns, provenance=trace.provenance)

    @classmethod
    def from_parquet(cls, stored: dict[bytes, bytes], place: Place) -> "Metadata":
        texts = {
            key.decode(): value.decode()
            for key, value in stored.items()
            if key.decode() in METADATA
        }
        try:
            provenance = orjson.loads(texts.get(META_PROVENANCE, "{}"))
        except orjson.JSONDecodeError as error:
            found = f"the metadata {META_PROVENANCE} is not JSON"
            raise place.refuse_input(found, "Write the file again") from error
        return cls._from_values({**texts, META_PROVENANCE: provenance}, place)

    @classmethod
    def from_line(cls, line: bytes, place: Place) -> "Metadata":
        """From the first line of a JSON Lines trace, if that is a header and not a request."""
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError:
            return cls()
        if not isinstance(values, dict) or not values.keys() & set(METADATA):
            return cls()
        return cls._from_values(values, place, stands_in_line=True)

    @classmethod
    def _from_values(
        cls, values: dict[str, Any], place: Place, *, stands_in_line: bool = False
    ) -> "Metadata":
        _refuse_other_schema(values, place)
        return cls(
            hash_block_tokens=_whole(values, META_HASH_BLOCK, place),
            epoch_ns=_whole(values, META_EPOCH, place),
            digest=values.get(META_DIGEST),
            provenance=values.get(META_PROVENANCE) or {},
            stands_in_line=stands_in_line,
        )

    def to_line(self, digest: str) -> dict[str, Any]:
        values = {
            META_SCHEMA: SCHEMA_NAME,
            META_VERSION: SCHEMA_VERSION,
            META_HASH_BLOCK: self.hash_block_tokens,
            META_EPOCH: self.epoch_ns,
            META_DIGEST: digest,
            META_PROVENANCE: self.provenance,
        }
        return {key: value for key, value in values.items() if value is not None}

    def to_parquet(self, digest: str) -> dict[str, str | bytes]:
        values = self.to_line(digest)
        values[META_PROVENANCE] = orjson.dumps(self.provenance).decode()
        return {key: str(value) for key, value in values.items()}

    def trace(self, table: pa.Table, path: str, limit: int | None = None) -> Trace:
        """The trace of a whole file, or of its first `limit` rows: its own trace, from time 0."""
        plain = table.replace_schema_metadata(None)
        if limit is None:
            digest, epoch_ns, provenance = self.digest, self.epoch_ns, self.provenance
        else:
            shift_ns = 0
            if "added_ns" in plain.column_names:
                plain, shift_ns = _from_zero(plain)
            steps = [*self.provenance.get("transforms", []), {"step": "slice", "limit": limit}]
            digest, provenance = None, {**self.provenance, "transforms": steps}
            epoch_ns = None if self.epoch_ns is None else self.epoch_ns + shift_ns
        return Trace(plain, self.hash_block_tokens, epoch_ns, provenance, path, digest)


def _from_zero(table: pa.Table) -> tuple[pa.Table, int]:
    """Where rows are sorted by `added_ns`, the earliest arrival may stand behind the limit."""
    arrivals, added = (table.column(name) for name in ("arrival_ns", "added_ns"))
    first = pc.min(arrivals) if pa.types.is_integer(arrivals.type) else pa.scalar(None)
    if not first.is_valid:
        return table, 0  # the checks will name the row
    for name, times in (("arrival_ns", arrivals), ("added_ns", added)):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pc.subtract(times, first))
    return table, int(first.as_py())


def _refuse_other_schema(values: dict[str, Any], place: Place) -> None:
    schema, version = values.get(META_SCHEMA, SCHEMA_NAME), values.get(META_VERSION, "1.0")
    if schema != SCHEMA_NAME:
        raise place.refuse_input(f"holds a {schema!r}, not a trace", "Name a trace file")
    if str(version).partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        found = f"is of schema version {version}, but this program reads version 1"
        remedy = "Import its source again, or use the program's version that wrote it"
        raise place.refuse_input(found, remedy)


def _whole(values: dict[str, Any], key: str, place: Place) -> int | None:
    value = values.get(key)
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError) as error:
        found = f"the metadata {key} is {shown(value)}, not a whole number"
        raise place.refuse_input(found, "Write the file again") from error
