"""The timeline is what the Chrome trace format asks for."""

import io
import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from schedbench.results.report.timeline import write_timeline
from schedbench.results.stored_run import StoredRun

Event = dict[str, Any]


@pytest.fixture(scope="module")
def events(crowded: StoredRun) -> list[Event]:
    out = io.BytesIO()
    count = write_timeline([crowded, crowded], out)
    document = json.loads(out.getvalue())
    assert document["displayTimeUnit"] == "ns"
    assert len(document["traceEvents"]) == count
    return document["traceEvents"]


def tracks(events: list[Event], phase: str) -> dict[tuple[int, int, str], list[Event]]:
    """Events of one kind by process, track, and for counters by name."""
    found: dict[tuple[int, int, str], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == phase:
            name = event["name"] if phase == "C" else ""
            found[event["pid"], event["tid"], name].append(event)
    return found


def ns(event: Event, name: str) -> int:
    return round(event[name] * 1000)


def test_every_event_has_what_its_kind_needs(events: list[Event]) -> None:
    needed = {
        "M": {"name", "pid", "tid", "args"},
        "X": {"name", "pid", "tid", "ts", "dur", "args"},
        "C": {"name", "pid", "tid", "ts", "args"},
        "i": {"name", "pid", "tid", "ts", "s", "args"},
    }
    for event in events:
        assert set(event) - {"ph"} == needed[event["ph"]]


@pytest.mark.parametrize("phase", ["X", "C", "i"])
def test_times_never_go_back_on_a_track(events: list[Event], phase: str) -> None:
    for track in tracks(events, phase).values():
        times = [event["ts"] for event in track]
        assert times == sorted(times)


def test_slices_of_a_track_never_overlap(events: list[Event]) -> None:
    for track in tracks(events, "X").values():
        for one, other in pairwise(track):
            assert ns(one, "ts") + ns(one, "dur") <= ns(other, "ts")


def test_each_track_and_process_has_a_name(events: list[Event]) -> None:
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {track[:2] for track in tracks(events, "X")} == named
    assert list(processes.values()) == ["crowded: scheduler", "crowded: requests"] * 2


def test_passes_are_slices_and_evictions_instants(crowded: StoredRun, events: list[Event]) -> None:
    passes = tracks(events, "X")[1, 1, ""]
    assert [event["args"]["pass"] for event in passes] == list(range(crowded.summary["passes"]))
    assert [ns(e, "dur") for e in passes] == crowded.passes()["duration_ns"].to_pylist()
    evicted = sum(
        len(e["args"]["rows"])
        for e in events
        if e["ph"] == "i" and e["pid"] == 1 and e["name"] == "preempted"
    )
    assert evicted == crowded.summary["preempted"]


def test_a_request_goes_from_its_arrival_to_its_finish_without_a_hole(
    crowded: StoredRun, events: list[Event]
) -> None:
    found = tracks(events, "X")
    for request in crowded.requests().to_pylist():
        track = found[2, request["row"] + 1, ""]
        assert ns(track[0], "ts") == request["arrival_ns"]
        for one, other in pairwise(track):
            assert ns(one, "ts") + ns(one, "dur") == ns(other, "ts")
        assert ns(track[-1], "ts") + ns(track[-1], "dur") == request["finish_ns"]
        names = [event["name"] for event in track]
        assert names.count("preempted") == request["preemptions"]


def test_counters_are_written_where_they_change(crowded: StoredRun, events: list[Event]) -> None:
    running = tracks(events, "C")[1, 0, "running"]
    values = [event["args"]["running"] for event in running]
    assert all(one != other for one, other in pairwise(values))
    assert max(values) == crowded.summary["queues"]["running_max"]
