"""A pass that a preemption closes, in a scenario that vLLM's own class recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from golden_runs import replayed
from watched import watched_replay

from schedbench.runner.clock import ClockRunner
from schedbench.runner.golden_log import GoldenLog, read_log
from schedbench.runner.golden_sched import config_of
from schedbench.runner.run import ReplayOptions
from schedbench.workloads.trace import Trace

SCENARIO = Path(__file__).parents[1] / "golden" / "preempt_fcfs.0.jsonl.gz"
MS = 1_000_000


def _trace(log: GoldenLog) -> Trace:
    """Its requests, one millisecond a pass."""
    return Trace.from_columns(
        {
            "arrival_ns": [request["arrival"] * MS for request in log.requests],
            "prompt_tokens": [sum(n for _, n in request["prompt"]) for request in log.requests],
            "output_tokens": [request["max_tokens"] for request in log.requests],
        }
    )


def test_its_row_names_victims_what_was_cancelled_would_have_fitted_and_is_stranded() -> None:
    log = read_log(SCENARIO)
    assert replayed(log).passes == log.passes
    config = replace(config_of(log), async_scheduling=False)
    watch, run = watched_replay(_trace(log), config, ReplayOptions(), runner=ClockRunner(MS, 0))
    assert run is not None
    rows = run.passes.to_pylist()
    made = [(row["tokens_scheduled"], [str(each) for each in row["victims"]]) for row in rows]
    assert made == [(row["spent"], row["preempted"]) for row in log.passes]

    closing = [row for row in rows if row["admissions_cancelled"]]
    assert [row["pass"] for row in closing] == [4, 20]
    assert watch.closed_passes == 2  # in each, all that can be reached is as before the count
    row, recorded = closing[1], log.passes[20]
    assert row["admission_stop"] == "closed_by_preemption"
    assert row["binding_limit"] == "kv_blocks"
    assert row["victims"] == [4]
    others = [name for name in recorded["wait1"] if name not in recorded["preempted"]]
    assert row["admissions_cancelled"] == len(others) == 3
    assert row["admissions_cancelled_fit"] == 0  # its victim heads the queue, and ends the loop
    assert row["budget_stranded"] == recorded["budget"] - recorded["spent"] == 508
