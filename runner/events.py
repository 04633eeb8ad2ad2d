"""Things that happen to the engine from outside, at given times: pauses, resets, aborts.

A JSON Lines file, one event a line:

    {"at": "5s", "op": "pause", "state": "new"}          nobody is admitted ("all": nothing runs)
    {"at": "8s", "op": "resume"}
    {"at": "9s", "op": "reset_prefix_cache", "preempt": true}
    {"at": "12s", "op": "abort", "request": 17}          a row of the trace, or its request_id

`at` is simulated time since the trace began. An event acts before the first pass that starts at
or after its time, after the arrivals of that pass. An abort of a request that has ended by then,
or has not arrived, changes nothing, as in vLLM, and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from schedbench.errors import TraceError, UsageError
from schedbench.results.units import duration
from schedbench.runner.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schedbench.workloads.trace import Trace

FIELDS = {
    "pause": {"state"},
    "resume": set(),
    "reset_prefix_cache": {"preempt"},
    "abort": {"request"},
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `at_ns` of the simulated clock."""

    at_ns: int
    op: Literal["pause", "resume", "reset_prefix_cache", "abort"]
    state: Literal["new", "all"] = "new"
    preempt: bool = False
    request: int | str = -1

    def __post_init__(self) -> None:
        """Raises UsageError for a time that is no whole number."""
        if not isinstance(self.at_ns, int):
            raise UsageError(f"at_ns is {self.at_ns!r}: it is a whole number of nanoseconds")


def of_rows(events: Sequence[Event], trace: Trace) -> list[Event]:
    """The events, with each aborted request by its row. Raises TraceError for one of no row."""
    labels = {each.request for each in events if isinstance(each.request, str)}
    rows: dict[int | str, int] = {}
    if labels and trace.has("request_id"):
        ids = trace.table["request_id"].to_pylist()
        rows = {label: row for row, label in enumerate(ids) if label in labels}
    return [_of_row(each, rows, trace.num_requests) for each in events]


def _of_row(event: Event, rows: Mapping[int | str, int], count: int) -> Event:
    if event.op != "abort":
        return event
    row = rows.get(event.request, event.request)
    if isinstance(row, str) or not 0 <= row < count:
        raise TraceError(
            f"--events: abort names the request {event.request!r}, and the trace has none of that "
            f"request_id and no such row (0 to {count - 1})"
        )
    return replace(event, request=row)


def told_of_aborts(ignored: Sequence[Event]) -> list[str]:
    """Aborts that changed nothing."""
    if not ignored:
        return []
    first = ignored[0]
    many = f"{len(ignored)} aborts were" if len(ignored) > 1 else "1 abort was"
    where = f"first: row {first.request} at {duration(first.at_ns)}"
    why = "the request had ended by then, or had not arrived"
    return [f"{many} ignored, as vLLM does: {why} ({where})"]


def read_events(path: str) -> list[Event]:
    """Read a file of events, sorted by time; events of one time stay in file order.

    Raises:
        TraceError: a line that is no event, named with its number.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise TraceError(f"--events {path}: {error.strerror}") from error
    events = [_parse(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    return sorted(events, key=lambda event: event.at_ns)


def _parse(line: bytes, place: str) -> Event:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise TraceError(
            f"{place}: not JSON ({error}): {line[:80].decode(errors='replace')}"
        ) from error
    if not isinstance(found, dict) or found.get("op") not in FIELDS:
        raise TraceError(f"{place}: an event has an `op`, one of {', '.join(FIELDS)}")
    op, rest = found["op"], {k: v for k, v in found.items() if k not in ("at", "op")}
    if unknown := sorted(rest.keys() - FIELDS[op]):
        raise TraceError(f"{place}: {op} has no field {unknown[0]!r}")
    _check(op, rest, place)
    try:
        at_ns = parse_duration(str(found.get("at", "")), "`at`")
    except UsageError as error:
        raise TraceError(f"{place}: {error}") from error
    return Event(at_ns, op, **rest)


def _check(op: str, rest: dict[str, Any], place: str) -> None:
    if op == "pause" and rest.get("state", "new") not in ("new", "all"):
        raise TraceError(f"{place}: `state` is new or all, not {rest['state']!r}")
    if op == "abort" and not isinstance(rest.get("request"), int | str):
        raise TraceError(f"{place}: abort needs `request`, a row of the trace or its request_id")
    if not isinstance(rest.get("preempt", False), bool):
        raise TraceError(f"{place}: `preempt` is true or false, not {rest['preempt']!r}")
