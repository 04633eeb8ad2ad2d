"""The recorder beside a scheduler: what it writes, what it survives, what it gives up."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from roomy_scheduler import RecordedRoomy, request

from schedbench.errors import UnsupportedError, UsageError
from schedbench.results.compare import first_by_values
from schedbench.results.recorded_log import NOT_TOLD
from schedbench.results.stored_run import StoredRun
from schedbench.runner import recording_writer, vllm_recorder
from schedbench.runner.deployment import Deployment
from schedbench.runner.recording_settings import RecordingSettings
from schedbench.runner.run import ReplayOptions, replay
from schedbench.workloads.importers.registry import import_trace

NUM_REQUESTS = 60


@pytest.fixture(autouse=True)
def settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> pytest.MonkeyPatch:
    caplog.set_level(logging.INFO, logger="vllm")  # as a server has it, and not a comparison
    monkeypatch.setenv("SCHEDBENCH_RECORD_DIR", str(tmp_path / "recordings"))
    monkeypatch.setattr(vllm_recorder, "_vllm_version", lambda: "0.26.0")
    return monkeypatch


def serve(scheduler: Any, *, requests: int = NUM_REQUESTS, seed: int = 0) -> None:  # noqa: ANN401
    """Requests come and a few leave early, until all are gone."""
    rng = random.Random(seed)  # noqa: S311 - traffic, not secrets
    added = 0
    while added < requests or scheduler.requests:
        while added < requests and rng.random() < 0.5:
            length = rng.randint(1, 9)
            scheduler.add_request(
                request(f"r{added}", time.time(), rng.randint(1, 40), length, length + (added % 2))
            )
            added += 1
        output = scheduler.schedule()
        if scheduler.requests and rng.random() < 0.1:
            scheduler.finish_requests([rng.choice(sorted(scheduler.requests))])
        scheduler.update_from_output(output, None)


def recording_of(scheduler: Any) -> Path:  # noqa: ANN401
    path: Path = scheduler._recording.writer.path
    return path


def manifest(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "manifest.json").read_text())["recording"])


def test_a_recorded_trace_on_the_recorded_clock_gives_the_recorded_passes() -> None:
    scheduler = RecordedRoomy()
    serve(scheduler)
    scheduler.shutdown()
    path = recording_of(scheduler)
    trace = import_trace(path)
    options = ReplayOptions(deployment=Deployment(recorded=str(path)))
    run = replay(trace, options=options)
    stored = StoredRun.open(path)
    assert first_by_values(stored.passes(), run.passes, NOT_TOLD) is None
    assert trace.num_requests == NUM_REQUESTS
    assert sum(run.passes.column("aborted").to_pylist()) > 0
    assert stored.is_complete


def test_files_are_closed_after_so_many_rows_and_hold_every_row_once(
    settings: pytest.MonkeyPatch,
) -> None:
    settings.setenv("SCHEDBENCH_RECORD_PART_ROWS", "7")
    scheduler = RecordedRoomy()
    serve(scheduler)
    scheduler.shutdown()
    path = recording_of(scheduler)
    for table, key in (("added", "row"), ("passes", "pass")):
        parts = [pq.read_table(part) for part in sorted((path / table).glob("*.parquet"))]
        assert all(part.num_rows == 7 for part in parts[:-1])
        numbers = [number for part in parts for number in part.column(key).to_pylist()]
        assert numbers == list(range(len(numbers)))
    assert pq.read_table(path / "ended").num_rows == NUM_REQUESTS


def test_a_file_is_closed_after_so_many_seconds_while_the_server_runs(
    settings: pytest.MonkeyPatch,
) -> None:
    settings.setenv("SCHEDBENCH_RECORD_PART_SECONDS", "1")
    scheduler = RecordedRoomy()
    serve(scheduler)
    path, deadline = recording_of(scheduler), time.monotonic() + 20
    while not list((path / "passes").glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert StoredRun.open(path).passes().num_rows > 0
    assert not StoredRun.open(path).is_complete
    scheduler.shutdown()


def test_a_full_queue_drops_and_counts_and_never_waits(settings: pytest.MonkeyPatch) -> None:
    settings.setattr(recording_writer, "DRAIN_SECONDS", 3600)
    settings.setenv("SCHEDBENCH_RECORD_QUEUE", "40")
    scheduler = RecordedRoomy()
    serve(scheduler)  # ends, although nobody reads the queue
    scheduler.shutdown()
    path = recording_of(scheduler)
    told = manifest(path)
    assert told["requests"] + told["dropped"]["added"] == NUM_REQUESTS
    with pytest.raises(UsageError, match=r"lost messages .* SCHEDBENCH_RECORD_QUEUE"):
        Deployment(recorded=str(path)).make_runner()
    notes = import_trace(path).provenance["notes"]
    assert any("alive when the recording ended" in note for note in notes)


def test_after_a_loss_the_recorder_forgets_whoever_ended_unseen(
    settings: pytest.MonkeyPatch,
) -> None:
    settings.setattr(recording_writer, "DRAIN_SECONDS", 3600)
    settings.setenv("SCHEDBENCH_RECORD_QUEUE", "40")
    scheduler = RecordedRoomy()
    serve(scheduler)
    writer = scheduler._recording.writer
    writer._drain()
    serve(scheduler, requests=3, seed=1)
    writer._drain()
    assert writer._live == {}
    scheduler.shutdown()


def test_a_killed_server_leaves_files_that_can_be_read() -> None:
    code = (
        "import os, time; from test_recording import *;"
        "vllm_recorder._vllm_version = lambda: '0.26.0'; s = RecordedRoomy(); serve(s);"
        "s.add_request(request('last', time.time(), 5, 5, 5)); s.schedule();"
        "time.sleep(2.5); print(recording_of(s), flush=True); time.sleep(60)"
    )
    support = Path(__file__).parents[2] / "support"
    search = os.pathsep.join([str(support), str(Path(__file__).parent), *sys.path])
    short = {"SCHEDBENCH_RECORD_PART_ROWS": "9", "SCHEDBENCH_RECORD_PART_SECONDS": "1"}
    environment = {**os.environ, **short, "PYTHONPATH": search}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        path = Path(server.stdout.readline().strip())
        server.send_signal(signal.SIGKILL)
    trace = import_trace(path)
    assert trace.num_requests == NUM_REQUESTS + 1
    last = trace.table.to_pylist()[-1]
    assert last["abort_after_ns"] > 0  # alive when the server died: it leaves then
    options = ReplayOptions(deployment=Deployment(recorded=str(path)))
    run = replay(trace, options=options)
    assert first_by_values(StoredRun.open(path).passes(), run.passes, NOT_TOLD) is None


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_child_of_multiprocessing_completes_its_recording(start: str) -> None:
    code = (
        "import multiprocessing\n"
        "from test_recording import *\n"
        "def engine():\n"
        "    vllm_recorder._vllm_version = lambda: '0.26.0'\n"
        "    s = RecordedRoomy(); serve(s); print(recording_of(s), flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    p = multiprocessing.get_context('{start}').Process(target=engine)\n"
        "    p.start(); p.join()\n"
    )
    support = Path(__file__).parents[2] / "support"
    script = Path(os.environ["SCHEDBENCH_RECORD_DIR"]).parent / f"{start}.py"
    script.write_text(code)
    search = os.pathsep.join([str(support), str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": search},
        check=True,
        capture_output=True,
        text=True,
    )
    assert StoredRun.open(done.stdout.split()[0]).is_complete


def test_a_disk_that_fails_ends_the_recording_and_not_the_server(
    settings: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    settings.setattr(recording_writer, "write_part", full)
    settings.setenv("SCHEDBENCH_RECORD_PART_ROWS", "3")
    scheduler = RecordedRoomy()
    serve(scheduler)
    scheduler.shutdown()
    assert "ends early" in caplog.text
    assert "No space left" in manifest(recording_of(scheduler))["failure"]


def test_a_fault_of_the_recorder_leaves_the_server_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = RecordedRoomy()
    scheduler._recording._pool = None
    serve(scheduler)
    scheduler.shutdown()
    assert "the server goes on" in caplog.text
    assert "a fault in" in manifest(recording_of(scheduler))["stopped"]


def test_a_recording_ends_at_its_limit(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("SCHEDBENCH_RECORD_PART_SECONDS", "1")
    scheduler = RecordedRoomy()
    writer, deadline = scheduler._recording.writer, time.monotonic() + 20
    object.__setattr__(writer._settings, "max_bytes", 1)  # a million would take long
    serve(scheduler)
    while writer._limit and time.monotonic() < deadline:
        time.sleep(0.05)
    serve(scheduler, requests=5, seed=1)
    scheduler.shutdown()
    told = manifest(recording_of(scheduler))
    assert told["ended_at_limit"]
    assert told["requests"] == NUM_REQUESTS
    assert told["dropped"]["added"] == 5


def test_a_forked_child_leaves_the_recording_to_its_parent() -> None:
    scheduler = RecordedRoomy()
    writer = scheduler._recording.writer
    writer._pid += 1
    writer.close()
    assert not writer._closed
    writer._pid -= 1
    scheduler.shutdown()
    assert writer._closed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("QUEUE", "2", "QUEUE=2: it is not a whole number of at least 16; correct it or unset it"),
        ("PART_ROWS", "many", "PART_ROWS=many: it is not a whole number of at least 1"),
        ("REQUEST_IDS", "yes", "REQUEST_IDS=yes: it is not 0 or 1"),
        ("FOLDER", "x", "FOLDER: there is no such setting; there are SCHEDBENCH_RECORD_DIR"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(name: str, value: str, message: str) -> None:
    environment = {f"SCHEDBENCH_RECORD_{name}": value}
    with pytest.raises(UsageError, match=message):
        RecordingSettings.from_environment(environment)


def test_a_class_that_does_not_fit_the_servers_mode_is_refused() -> None:
    class Asynchronous(RecordedRoomy):  # type: ignore[misc]
        is_async = True

    with pytest.raises(UsageError, match="this server schedules synchronously; name"):
        Asynchronous()


def test_a_release_that_was_never_compared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_recorder, "_vllm_version", lambda: "0.99.0")
    with pytest.raises(UnsupportedError, match=r"vLLM 0\.99\.0: .* install one of these"):
        _ = vllm_recorder.RecordingScheduler


def test_equal_prefixes_have_equal_ids_in_one_recording_and_others_in_the_next() -> None:
    found = []
    for _ in range(2):
        writer = RecordedRoomy()._recording.writer
        first, again = writer._ids([b"a", b"b"]), writer._ids([b"a", b"c"])
        assert first[0] == again[0]
        assert len({*first, *again}) == 3
        found.append(first[0])
        writer.close()
    assert found[0] != found[1]
