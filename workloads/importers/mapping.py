"""`--map arrival=ts:ms,prompt=isl,output=osl`: schema columns from source columns, with units."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from schedbench.errors import UsageError
from schedbench.workloads.importers.suggest import did_you_mean
from schedbench.workloads.importers.times import DIGITS_TO_NS
from schedbench.workloads.place import shown
from schedbench.workloads.schema import BY_NAME, COLUMNS

UNITS = (*DIGITS_TO_NS, "datetime")
_SHORT = {"prompt": "prompt_tokens", "output": "output_tokens", "id": "request_id"}
_REQUIRED = ("arrival_ns", "prompt_tokens", "output_tokens")
_INSTANTS = ("arrival_ns", "added_ns")
_UNIT_SLIPS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds", "epoch", "unix"), "s"),
    **dict.fromkeys(("msec", "millis", "milliseconds", "millisecond", "epoch_ms"), "ms"),
    **dict.fromkeys(("usec", "micros", "microseconds", "microsecond", "\u00b5s"), "us"),
    **dict.fromkeys(("nsec", "nanos", "nanoseconds", "nanosecond"), "ns"),
    **dict.fromkeys(("date", "iso", "iso8601", "timestamp", "dt"), "datetime"),
    **{unit: unit for unit in UNITS},  # in capitals
}
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
    if colon and unit not in UNITS and unit.lower() in _UNIT_SLIPS:
        meant = _UNIT_SLIPS[unit.lower()]
        raise UsageError(
            f"--map {name}={source}: {shown(unit)} is no unit; did you mean {head}:{meant}? "
            f"There are {', '.join(UNITS)}"
        )
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
    known = _names()
    listed = ", ".join(known)
    near = did_you_mean(name, known)
    raise UsageError(f"--map: {shown(name)} is no column of a trace{near} There are {listed}")


def _names() -> list[str]:
    """Every name that `--map` takes: the short ones, then columns, then fields of structs."""
    fields = [
        f"{column.name}.{inner.name}"
        for column in COLUMNS
        if pa.types.is_struct(column.type)
        for inner in column.type
    ]
    return ["arrival", *_SHORT, *BY_NAME, *fields]


def _has_field(arrow: pa.DataType, name: str) -> bool:
    return bool(pa.types.is_struct(arrow) and arrow.get_field_index(name) >= 0)
