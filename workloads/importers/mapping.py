"""`--map arrival=ts:ms,prompt=isl,output=osl`: schema columns from source columns, with units."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from schedbench.errors import UsageError
from schedbench.workloads.importers.times import DIGITS_TO_NS
from schedbench.workloads.schema import BY_NAME

UNITS = (*DIGITS_TO_NS, "datetime")
_SHORT = {"prompt": "prompt_tokens", "output": "output_tokens", "id": "request_id"}
_REQUIRED = ("arrival_ns", "prompt_tokens", "output_tokens")
_INSTANTS = ("arrival_ns", "added_ns")
_EXAMPLE = "--map arrival=NAME:ms,prompt=NAME,output=NAME"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A schema column, or one field of a struct column (`observed.ttft_ns`), and its source."""

    target: str
    source: str
    unit: str | None
    type: pa.DataType

    @property
    def is_instant(self) -> bool:
        return self.target in _INSTANTS

    @property
    def is_time(self) -> bool:
        return self.target.endswith("_ns")


def parse_mapping(text: str) -> dict[str, str]:
    """The mapping as typed: `target=source[:unit]`, parted by commas."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if bad := [left for left, sign, right in pairs if not (left.strip() and sign and right)]:
        raise UsageError(f"--map: {bad[0]!r} is not COLUMN=NAME; e.g. {_EXAMPLE}")
    names = [left.strip() for left, _, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"--map names {twice[0]} twice; give each column one source")
    return {name: right.strip() for name, (_, _, right) in zip(names, pairs, strict=True)}


def resolve(mapping: Mapping[str, str]) -> list[Mapped]:
    """Each pair checked against the schema; raises UsageError for what cannot be."""
    resolved = [_resolved(name, source) for name, source in mapping.items()]
    targets = [column.target for column in resolved]
    if missing := [name for name in _REQUIRED if name not in targets]:
        raise UsageError(f"--map lacks {missing[0]}; the least is {_EXAMPLE}")
    if twice := [name for name in targets if targets.count(name) > 1]:
        raise UsageError(f"--map names {twice[0]} twice; give each column one source")
    walls = {column.unit == "datetime" for column in resolved if column.is_instant and column.unit}
    if len(walls) > 1:
        raise UsageError("--map: arrival and added are on one clock; give both the same unit")
    return resolved


def _resolved(name: str, source: str) -> Mapped:
    target = _target(name)
    column, _, inner = target.partition(".")
    arrow = BY_NAME[column].type
    if inner:
        arrow = arrow.field(inner).type
    head, colon, unit = source.rpartition(":")
    if not (colon and unit in UNITS):
        return Mapped(target, source, None, arrow)
    mapped = Mapped(target, head, unit, arrow)
    if not mapped.is_time:
        raise UsageError(f"--map {name}={source}: {target} is no time, and takes no unit")
    if unit == "datetime" and not mapped.is_instant:
        raise UsageError(f"--map {name}={source}: {target} is a duration, not a date")
    return mapped


def _target(name: str) -> str:
    """The schema's name of a column; `arrival` and `observed.ttft` are short for `..._ns`."""
    for candidate in (_SHORT.get(name, name), f"{name}_ns"):
        column, dot, inner = candidate.partition(".")
        if column in BY_NAME and (not dot or _has_field(BY_NAME[column].type, inner)):
            return candidate
    raise UsageError(f"--map: {name!r} is no column of a trace; there are {', '.join(BY_NAME)}")


def _has_field(arrow: pa.DataType, name: str) -> bool:
    return bool(pa.types.is_struct(arrow) and arrow.get_field_index(name) >= 0)
