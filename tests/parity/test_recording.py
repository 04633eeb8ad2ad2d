"""What the recording scheduler writes around the real class is what a replay of it makes again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schedbench.results.compare import first_by_values
from schedbench.results.recorded_log import NOT_TOLD
from schedbench.results.stored_run import StoredRun
from schedbench.runner.deployment import Deployment
from schedbench.runner.run import ReplayOptions, Run, replay
from schedbench.workloads.importers.registry import import_trace

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "tests" / "support" / "recorded_engine.py"
PYTHONS = {
    "0.26.0": ROOT / ".venv-vllm" / "bin" / "python",
    "0.33.0": ROOT / ".venv-vllm-0.33.0" / "bin" / "python",
}
NUM_SCENARIOS = 24
SEEN = ("preempted", "resumed", "prefix_hit_tokens", "aborted", "finished_while_waiting")


@pytest.fixture(scope="module", params=sorted(PYTHONS))
def recordings(request: pytest.FixtureRequest, tmp_path_factory: Any) -> list[Path]:  # noqa: ANN401
    python = PYTHONS[request.param]
    if not python.exists():
        pytest.skip(f"needs `make vllm-env VERSION={request.param}`")
    folder = tmp_path_factory.mktemp("recordings")
    command = [python, ENGINE, folder, "0", str(NUM_SCENARIOS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    found = sorted(folder.iterdir())
    assert len(found) == NUM_SCENARIOS
    return found


def again(recording: Path) -> Run:
    options = ReplayOptions(deployment=Deployment(recorded=str(recording)))
    return replay(import_trace(recording), options=options)


def test_the_recorded_trace_with_the_recorded_times_gives_the_recorded_passes(
    recordings: list[Path],
) -> None:
    sums = dict.fromkeys(SEEN, 0)
    kinds = set()
    for recording in recordings:
        stored, run = StoredRun.open(recording), again(recording)
        assert first_by_values(stored.passes(), run.passes, NOT_TOLD) is None, recording
        flags = stored.manifest["scheduler"]
        kinds |= {stored.manifest["scheduling"], flags["policy"], bool(flags["max_loras"])}
        for name in SEEN:
            sums[name] += sum(run.passes.column(name).to_pylist())
    assert kinds == {"synchronous", "asynchronous", "fcfs", "priority", True, False}
    assert all(sums.values()), sums


def test_what_requests_got_is_what_the_replay_gives_them(recordings: list[Path]) -> None:
    for recording in recordings:
        ended = pq.read_table(recording / "ended").sort_by("row").to_pylist()
        added = pq.read_table(recording / "added").to_pylist()
        caps = {row["row"]: row["max_tokens"] for row in added}
        got = {row["row"]: row for row in again(recording).requests.to_pylist()}
        for row in ended:
            told = got[row["row"]]
            at_cap = row["output_tokens"] == caps[row["row"]]
            stopped_at_cap = at_cap and row["reason"] == "stop"  # a trace has that as its cap
            assert told["finish_reason"] == ("length" if stopped_at_cap else row["reason"])
            assert told["output_tokens"] == row["output_tokens"]
            assert told["first_token_ns"] == row["first_token_ns"]
            assert told["cached_tokens"] == row["cached_tokens"]
            assert told["finish_ns"] == row["end_ns"]


def test_no_label_of_a_request_is_written_unless_asked_for(recordings: list[Path]) -> None:
    for recording in recordings:
        added = pq.read_table(recording / "added")
        assert added.column("request_id").null_count == added.num_rows
        assert "request-" not in (recording / "manifest.json").read_text()
