"""A run as a timeline that Perfetto and chrome://tracing open: the Chrome trace event format.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

    process 2k + 1   the scheduler of run k: passes as slices, evictions as instants, counters
    process 2k + 2   its requests: a track each, from queued over prefill and decode to the end

Events are written as they are made, one a line: a million passes need no more memory than the
columns they are made of. Times are microseconds with three decimals: no nanosecond is lost.
"""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import orjson
import pyarrow as pa

from schedbench.results.report.request_phases import Phase, phases
from schedbench.results.stored_run import StoredRun
from schedbench.results.visible import visible_in_all

Event = dict[str, Any]

_IN_ARGS: Final = (
    "pass",
    "tokens_scheduled",
    "prefill_tokens",
    "decode_tokens",
    "spec_tokens",
    "running_stop",
    "admission_stop",
    "binding_limit",
)
_COUNTERS: Final = {
    "running": ("running",),
    "waiting": ("waiting", "skipped_waiting"),
    "KV blocks": ("kv_blocks_used",),
}
_COLUMNS: Final = (
    *_IN_ARGS,
    *(name for names in _COUNTERS.values() for name in names),
    *("start_ns", "duration_ns", "end_ns", "resumed", "preempted", "victims"),
    *("admitted", "requests_scheduled", "token_budget"),
)
_PASSES_TRACK: Final = 1
_ROWS_AT_ONCE: Final = 8192


def write_timeline(runs: Sequence[StoredRun], file: BinaryIO) -> int:
    """Write the runs and return how many events there are."""
    count = 0
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[')
    for place, run in enumerate(runs):
        for event in _events(run, 2 * place + 1):
            file.write(b",\n" if count else b"\n")
            file.write(orjson.dumps(visible_in_all(event)))
            count += 1
    file.write(b"\n]}\n")
    return count


def _events(run: StoredRun, process: int) -> Iterator[Event]:
    passes, requests = run.passes(_COLUMNS), run.requests()
    policy = str(run.manifest.get("scheduler", {}).get("policy", ""))
    yield from _process(process, f"{run.name}: scheduler")
    yield _named("thread_name", process, _PASSES_TRACK, {"name": "passes"})
    yield from _pass_events(passes, process)
    yield from _process(process + 1, f"{run.name}: requests")
    for request, parts in phases(passes, requests, policy):
        yield from _request_events(request, parts, process + 1)


def _process(process: int, name: str) -> Iterator[Event]:
    yield _named("process_name", process, 0, {"name": name})
    yield _named("process_sort_index", process, 0, {"sort_index": process})


def _named(what: str, process: int, track: int, args: Event) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": args}


def _pass_events(passes: pa.Table, process: int) -> Iterator[Event]:
    """In the order of time; a counter is written where it changes.

    A pass is a slice from when its work began: with several in flight, after the one before it.
    """
    counters: dict[str, Event] = {}
    for first in range(0, passes.num_rows, _ROWS_AT_ONCE):
        for row in passes.slice(first, _ROWS_AT_ONCE).to_pylist():
            done_ns, args = row["end_ns"], {name: row[name] for name in _IN_ARGS}
            begun_ns = done_ns - row["duration_ns"]
            yield _slice(_kind(row), begun_ns, done_ns, (process, _PASSES_TRACK), args)
            if row["victims"]:
                yield _eviction(row, begun_ns, process)
            for name, columns in _COUNTERS.items():
                values = {column: row[column] for column in columns}
                if counters.get(name) != values:
                    counters[name] = values
                    yield _counter(name, row["start_ns"], process, values)


def _kind(row: Event) -> str:
    """What was in the batch, as in the summary."""
    decodes = row["decode_tokens"] + row["spec_tokens"]
    if row["prefill_tokens"]:
        return "mixed" if decodes else "prefill"
    return "decode" if decodes else "empty"


def _slice(name: str, from_ns: int, to_ns: int, track: tuple[int, int], args: Event) -> Event:
    process, thread = track
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": from_ns / 1000,
        "dur": (to_ns - from_ns) / 1000,
        "args": args,
    }


def _eviction(row: Event, at_ns: int, process: int) -> Event:
    return {
        "ph": "i",
        "s": "t",
        "name": "preempted",
        "pid": process,
        "tid": _PASSES_TRACK,
        "ts": at_ns / 1000,
        "args": {"rows": row["victims"]},
    }


def _counter(name: str, at_ns: int, process: int, values: Event) -> Event:
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": at_ns / 1000, "args": values}


def _request_events(request: Event, parts: Sequence[Phase], process: int) -> Iterator[Event]:
    """The track of a request, named by its id; numbered from 1, in the order of the trace."""
    track = request["row"] + 1
    yield _named("thread_name", process, track, {"name": request["request_id"]})
    yield _named("thread_sort_index", process, track, {"sort_index": track})
    args = {
        name: request[name]
        for name in ("row", "priority", "prompt_tokens", "output_tokens", "cached_tokens")
    }
    for part in parts:
        extra = (
            {}
            if part.is_certain
            else {"until": "about: the log counts such requests without their names"}
        )
        yield _slice(part.name, part.from_ns, part.to_ns, (process, track), {**args, **extra})
    if request["finish_reason"] and parts:
        yield {
            "ph": "i",
            "s": "t",
            "name": request["finish_reason"],
            "pid": process,
            "tid": track,
            "ts": request["finish_ns"] / 1000,
            "args": {},
        }
