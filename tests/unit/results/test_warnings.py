"""Each warning comes from one cause, names it, and says what to do; a sound run has none."""

import re
from typing import Any

import pytest

from schedbench.results.warnings import (
    DEFAULT_FAILURE_POLICY,
    DEFAULT_SPEC_METHOD,
    warn,
    warn_sweep,
)
from schedbench.sched.config import SchedulerConfig

CONFIG = {
    "scheduler_reserve_full_isl": True,
    "max_num_seqs": 256,
    "max_model_len": 1024,
    "policy": "fcfs",
    "max_loras": None,
    "watermark": 0.0,
    "enable_prefix_caching": True,
    "block_size": 16,
    "num_speculative_tokens": 0,
    "spec_method": DEFAULT_SPEC_METHOD,
    "kv_role": None,
    "kv_load_failure_policy": DEFAULT_FAILURE_POLICY,
}


def sound() -> dict[str, Any]:
    return {
        "passes": 1000,
        "requests": 500,
        "requests_unfinished": 0,
        "requests_cut_short": 0,
        "output_tokens_cut": 0,
        "binding_limit": {"seats": {"passes": 900, "ns": 9}, "nothing": {"passes": 100, "ns": 1}},
        "admission_stop": {"seats_full": {"passes": 900, "ns": 9}},
        "running_stop": {"list_done": {"passes": 1000, "ns": 10}},
        "traffic": {
            "requests_per_s": 3.2,
            "head_requests_per_s": 3.0,
            "prompt_tokens_max": 900,
            "priorities": 1,
            "loras": 0,
        },
        "ttft_ns": {"n": 500},
        "recomputed_share": 0.01,
        "preempted": 12,
        "preempted_by_reset": 0,
        "admissions_cancelled_fit": 0,
        "admission_closed_by_preemption": {"passes": 3, "ns": 10**9},
        "kv": {"used_share_max": 0.8},
        "queues": {"running_max": 256},
        "makespan_ns": 10,
        "busy_ns": 10,
        "prefix_hit_tokens": 5,
    }


def test_a_sound_run_has_no_warnings() -> None:
    assert warn(sound(), CONFIG, {}) == []


@pytest.mark.parametrize(
    ("seen", "config", "derived", "message"),
    [
        ({"passes": 0}, {}, {}, "no pass was made"),
        ({"requests_unfinished": 7}, {}, {}, "7 requests did not finish"),
        ({"binding_limit": {"nothing": {}}}, {}, {}, "comparison of limits on this trace means"),
        ({"traffic": {"head_requests_per_s": 0.03}}, {}, {}, "first quarter .* 0.03 requests/s"),
        (
            {"requests_cut_short": 2, "output_tokens_cut": 76},
            {},
            {},
            "2 of 500 requests got fewer .* 76 tokens .* --max-model-len 1024 .* --too-long drop",
        ),
        ({"ttft_ns": {"n": 99}}, {}, {}, "99 requests, and a p99"),
        ({"recomputed_share": 0.05}, {}, {}, "5.0 % of all tokens .* 12 preemptions; fewer"),
        (
            {"recomputed_share": 0.05},
            {"scheduler_reserve_full_isl": False},
            {},
            "12 preemptions; --scheduler-reserve-full-isl, fewer",
        ),
        (
            {"recomputed_share": 0.05, "preempted_by_reset": 12},
            {},
            {},
            "12 preemptions, all by reset_prefix_cache .* no limit would save them",
        ),
        (
            {"recomputed_share": 0.05, "preempted_by_reset": 5},
            {},
            {},
            "12 preemptions, 5 of them by reset_prefix_cache .* would save the others",
        ),
        ({"admissions_cancelled_fit": 4}, {}, {}, "4 times a waiting request would have been adm"),
        ({"kv": {"used_share_max": 0.24}}, {}, {}, "at most 24.0 % of the KV blocks"),
        ({"busy_ns": 4}, {}, {}, "only 40.0 % of the time"),
        ({"queues": {"running_max": 255}}, {}, {}, "--max-num-seqs 256 was never binding"),
        ({}, {}, {"threshold": 900}, "threshold of 900 tokens cut nothing"),
        ({}, {"policy": "priority"}, {}, "orders by arrival here"),
        ({}, {"max_loras": 2}, {}, "--max-loras is inert"),
        ({}, {"watermark": 0.02}, {}, "--watermark 0.02 never kept a request out"),
        ({"prefix_hit_tokens": 0}, {}, {}, "never hit"),
    ],
)
def test_each_cause_has_its_one_warning(
    seen: dict[str, Any], config: dict[str, Any], derived: dict[str, Any], message: str
) -> None:
    summary = sound()
    for key, value in seen.items():
        nested = key == "traffic"
        summary[key] = {**summary[key], **value} if nested else value
    (warning,) = warn(summary, {**CONFIG, **config}, derived)
    assert re.search(message, warning)


@pytest.mark.parametrize(
    ("columns", "priorities", "config", "message"),
    [
        (["spec"], 1, {}, "column spec; without --spec-tokens N"),
        (["lora"], 1, {}, "column lora; without --max-loras N"),
        (["priority"], 3, {}, "column priority; without --scheduling-policy priority"),
        ([], 1, {"spec_method": "eagle"}, "--spec-method eagle is inert: .* --spec-tokens N"),
        ([], 1, {"kv_load_failure_policy": "recompute"}, "recompute is inert: .* remote_kv"),
    ],
)
def test_what_nothing_reads_has_one_warning_that_names_column_and_flag(
    columns: list[str], priorities: int, config: dict[str, Any], message: str
) -> None:
    summary = sound()
    summary["traffic"]["priorities"] = priorities
    (warning,) = warn(summary, {**CONFIG, **config}, {}, columns)
    assert re.search(message, warning)


def test_a_column_that_is_read_has_no_warning() -> None:
    asks = {"num_speculative_tokens": 3, "max_loras": 2, "policy": "priority"}
    summary = sound()
    summary["traffic"] |= {"priorities": 3, "loras": 2}
    assert warn(summary, {**CONFIG, **asks}, {}, ["spec", "lora", "priority"], 0.5) == []


def test_an_acceptance_that_was_asked_for_needs_drafts() -> None:
    (warning,) = warn(sound(), CONFIG, {}, acceptance=0.5)
    assert warning == "--spec-acceptance 0.5 is inert: there are no drafts without --spec-tokens N"


def test_what_counts_as_not_given_is_the_default_of_the_flag() -> None:
    plain = SchedulerConfig()
    assert (plain.spec_method, plain.kv_load_failure_policy) == (
        DEFAULT_SPEC_METHOD,
        DEFAULT_FAILURE_POLICY,
    )


def test_a_sweep_in_which_nothing_was_ever_binding_is_said_to_mean_nothing() -> None:
    idle = sound() | {"binding_limit": {"nothing": {"passes": 1, "ns": 1}}}
    assert warn_sweep([idle, sound()]) == []
    (warning,) = warn_sweep([idle, idle])
    assert "means nothing;" in warning
    (warning,) = warn_sweep([idle, idle | {"e2e_ns": {"p50": 1}}])
    assert "means nothing for the limits; what differs comes from elsewhere" in warning
    assert "nothing to compare" in warn_sweep([])[0]
