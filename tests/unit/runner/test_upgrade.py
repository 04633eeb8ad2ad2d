"""Two runs part, and what made them is found by switching everything they differ in."""

from __future__ import annotations

from typing import Any

import pytest

from schedbench.results.cause import Cause, cause_rows
from schedbench.runner.deployment import Deployment
from schedbench.runner.run import ReplayOptions, replay
from schedbench.runner.upgrade import Side, differences, find_cause
from schedbench.sched.behaviours import RELEASES
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.trace import Trace

OPTIONS = ReplayOptions(deployment=Deployment(cost="linear:8ms,0.03ms"))
SMALL: dict[str, Any] = {"num_gpu_blocks": 200, "max_model_len": 2048, "max_num_seqs": 16}
OLD = SMALL | {"vllm_version": "0.26.0"}
NEW = SMALL | {"vllm_version": "0.33.0"}


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Long prompts one after the other, so that each is alone, and then some at once."""
    return Trace.from_columns(
        {
            "arrival_ns": [0, 600_000_000, *[2_000_000_000] * 8],
            "prompt_tokens": [700, 900, *[400] * 8],
            "output_tokens": [5, 5, *[60] * 8],
            "priority": [0, 0, *[row % 3 for row in range(8)]],
        }
    )


def cause_of(trace: Trace, first: dict[str, Any], other: dict[str, Any]) -> Cause | None:
    sides = []
    for flags in (first, other):
        config = SchedulerConfig(**flags)
        sides.append(Side(config, replay(trace, config, options=OPTIONS).passes))
    return find_cause(trace, *sides, options=OPTIONS, workers=1)


def test_runs_that_decide_alike_have_no_cause(trace: Trace) -> None:
    assert cause_of(trace, OLD, NEW) is None


def test_the_behaviour_that_made_two_releases_part_is_named(trace: Trace) -> None:
    flags = {"long_prefill_token_threshold": 256, "async_scheduling": False}
    found = cause_of(trace, OLD | flags, NEW | flags)
    assert found is not None
    assert found.alone == ("threshold-lone",)
    assert found.next_index is None
    assert found.summary == replay(trace, SchedulerConfig(**NEW | flags), options=OPTIONS).summary


def test_where_another_behaviour_begins_is_told(trace: Trace) -> None:
    flags = {"long_prefill_token_threshold": 256, "policy": "priority", "num_gpu_blocks": 100}
    found = cause_of(trace, OLD | flags, NEW | flags)
    assert found is not None
    assert found.alone == ("threshold-lone",)
    assert found.next_index is not None
    (_, caused), (_, rest) = cause_rows(found, "B")
    assert "threshold-lone: alone it makes A decide that pass as B does" in caused
    assert f"up to pass {found.next_index}" in rest


def test_a_flag_in_which_the_runs_differ_is_a_cause_like_any_other(trace: Trace) -> None:
    found = cause_of(trace, OLD, NEW | {"max_num_active_seqs": 1})
    assert found is not None
    assert found.alone == ("--max-num-active-seqs 1",)


def test_two_that_are_needed_together_are_named_together(trace: Trace) -> None:
    mixture = {"behaviours": "threshold-lone=off", "long_prefill_token_threshold": 256}
    found = cause_of(trace, NEW, NEW | mixture)
    assert found is not None
    assert not found.alone
    assert found.together == ("threshold-lone", "--long-prefill-token-threshold 256")
    assert "together: none is enough alone" in cause_rows(found, "B")[0][1]


def test_what_nobody_asks_about_is_not_tried(trace: Trace) -> None:
    flags = {"long_prefill_token_threshold": 256}
    found = cause_of(trace, OLD | flags, NEW | flags)
    assert found is not None
    assert found.switches == len(RELEASES["0.33.0"])
    assert 0 < found.tried < found.switches


def test_causes_are_found_where_the_trace_brings_its_own_role(trace: Trace) -> None:
    remote = [{"prefix_tokens": 64, "lookup_ns": 0, "load_ns": 5_000_000}] * 10
    columns = {name: trace.table.column(name).to_pylist() for name in trace.table.column_names}
    columns = {name: values for name, values in columns.items() if values[0] is not None}
    with_kv = Trace.from_columns(columns | {"remote_kv": remote})
    flags = {"long_prefill_token_threshold": 256}
    found = cause_of(with_kv, OLD | flags, NEW | flags)
    assert found is not None
    assert found.alone == ("threshold-lone",)


def test_a_switch_takes_along_what_it_needs() -> None:
    switches = differences(SchedulerConfig(**OLD), SchedulerConfig(**NEW))
    changes = {each.name: each.changes["behaviours"] for each in switches}
    needed = "pause_holders=on+holders_first=on+one_waiting_queue=on"
    assert changes["pause-holders"] == needed
    SchedulerConfig(**OLD, behaviours=needed)
