"""Random cases against the installed vLLM, and the smallest case that still differs."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import GoldenLog
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore
from schedbench.runner.record_golden import record
from schedbench.runner.verify import FAULT, differing
from schedbench.runner.vllm_backend import VllmBackend

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterator

    from schedbench.runner.golden_backend import Backend, StoreClient
    from schedbench.runner.golden_log import Row

MOST_TRIES = 400  # of smaller cases, for one that differs


@dataclass(frozen=True)
class Case:
    """A case that differs: the smallest found, with the passes the real class makes of it."""

    seed: int
    log: GoldenLog
    index: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """A case on which the real class fails in a way that has no name, equal up to then."""

    seed: int
    error: str


def fuzz(
    seed: int,
    count: int,
    release: str,
    features: Collection[str],
    *,
    behaviours: str = "",
    progress: Callable[[int], None] | None = None,
    endings: Counter[str] | None = None,
) -> Iterator[Case | Failed]:
    """Run `count` random cases on both; yields those that differ, shrunk, as they are found.

    Cases on which the real class fails are yielded as well. `behaviours` makes a mixture of this
    project's side: a switch that no case notices is one that the cases do not reach. `endings`
    counts the cases in which both end the engine, by how.
    """
    for offset in range(count):
        scenario = draw_scenario(seed + offset, release, features)
        found = compared(scenario, behaviours, endings)
        if isinstance(found, str):
            yield Failed(seed + offset, found)
        elif found is not None:
            yield shrunk(seed + offset, scenario, behaviours)
        if progress is not None:
            progress(offset + 1)


def compared(
    scenario: GoldenLog, behaviours: str = "", endings: Counter[str] | None = None
) -> tuple[int, tuple[str, ...]] | str | None:
    """The first pass and its columns in which the two schedulers part; None if they do not.

    Where the real class fails before they do, its error.
    """
    theirs = _rows(scenario, lambda store: VllmBackend(scenario.config, store))
    ours = _rows(scenario, lambda store: SchedBackend(scenario, store, behaviours))
    for index, (their_row, our_row) in enumerate(zip_longest(theirs, ours)):
        if their_row is not None and FAULT in their_row:
            return str(their_row[FAULT])
        if columns := differing(their_row, our_row):
            return index, columns
        if their_row is not None and "ends" in their_row and endings is not None:
            endings[their_row["ends"]] += 1
    return None


def first_parting(scenario: GoldenLog, behaviours: str = "") -> tuple[int, tuple[str, ...]] | None:
    """The first pass and its columns in which the two part; None too where the real class fails."""
    found = compared(scenario, behaviours)
    return None if isinstance(found, str) else found


def _rows(scenario: GoldenLog, make: Callable[[StoreClient], Backend]) -> Iterator[Row]:
    store = RemoteStore(scenario.config.get("hold_frees"))
    try:
        yield from GoldenDriver(scenario, make(store), store).passes()
    except Exception as error:  # noqa: BLE001 - a failing scheduler is an outcome
        yield {FAULT: f"{type(error).__name__}: {error}"}


def shrunk(seed: int, scenario: GoldenLog, behaviours: str = "", tries: int = MOST_TRIES) -> Case:
    """Take away requests, events and flags for as long as the case still differs."""
    best = scenario
    progress = True
    while progress and tries > 0:
        progress = False
        for smaller in _smaller(best):
            tries -= 1
            if first_parting(smaller, behaviours) is not None:
                best, progress = smaller, True
                break
            if tries <= 0:
                break
    parting = first_parting(best, behaviours)
    assert parting is not None
    note = f"Shrunk from random case {seed}; first difference in pass {parting[0]}."
    best = replace(best, header=best.header | {"name": f"shrunk.{seed}", "note": note})
    return Case(seed, record(best), *parting)


def _smaller(scenario: GoldenLog) -> Iterator[GoldenLog]:
    """Cases with less in them, the largest steps first."""
    requests = scenario.requests
    size = len(requests) // 2
    while size:
        for start in range(0, len(requests), size):
            rest = requests[:start] + requests[start + size :]
            if rest:
                yield _with(scenario, requests=rest)
        size //= 2
    events = scenario.header.get("events") or []
    for place in range(len(events)):
        yield _with(scenario, events=events[:place] + events[place + 1 :])
    for name, plain in PLAIN_FLAGS.items():
        if name in scenario.config and scenario.config[name] != plain:
            yield _without(scenario, name)
    for place, request in enumerate(requests):
        for smaller in _smaller_requests(request):
            yield _with(scenario, requests=[*requests[:place], smaller, *requests[place + 1 :]])


PLAIN_FLAGS: Row = {
    "async_scheduling": False,
    "pipeline_depth": None,
    "num_speculative_tokens": 0,
    "kv_connector": False,
    "encoder_budget": None,
    "max_loras": None,
    "enable_prefix_caching": False,
    "policy": "fcfs",
    "watermark": 0.0,
    "long_prefill_token_threshold": 0,
    "scheduler_reserve_full_isl": True,
    "throttle_interval": 1,
}
"""Flags as they are where nothing of a feature is on."""

READERS: dict[str, tuple[str, str]] = {
    "kv_connector": ("remote_kv", "kv_"),
    "encoder_budget": ("mm", "encoder_"),
}
"""By flag: what of a request, and the events by the beginning of their names, mean nothing
without it."""


def _without(scenario: GoldenLog, name: str) -> GoldenLog:
    """The case with a flag as it is where its feature is off, and with nothing that needs it."""
    field, events = READERS.get(name, ("", ""))
    if not field:
        return _with(scenario, flags={name: PLAIN_FLAGS[name]})
    return _with(
        scenario,
        requests=[
            {key: value for key, value in request.items() if key != field}
            for request in scenario.requests
        ],
        events=[
            event
            for event in scenario.header.get("events") or []
            if not event["op"].startswith(events)
        ],
        flags={name: PLAIN_FLAGS[name]},
    )


def _smaller_requests(request: Row) -> Iterator[Row]:
    for name in (
        "priority",
        "lora",
        "cache_salt",
        "grammar",
        "remote_kv",
        "mm",
        "accept",
        "drafts",
    ):
        if name in request:
            yield {key: value for key, value in request.items() if key != name}
    if request["max_tokens"] > 1:
        yield request | {"max_tokens": request["max_tokens"] // 2}


def _with(
    scenario: GoldenLog,
    *,
    requests: list[Row] | None = None,
    events: list[Row] | None = None,
    flags: Row | None = None,
) -> GoldenLog:
    header: dict[str, Any] = copy.deepcopy(scenario.header)
    header["config"] |= flags or {}
    if events is not None:
        header["events"] = events
    kept = scenario.requests if requests is None else requests
    ids = {request["id"] for request in kept}
    header["events"] = [
        event
        for event in header.get("events") or []
        if ids.issuperset(event.get("ids", [event["id"]] if "id" in event else []))
    ]
    return GoldenLog(header, kept)
