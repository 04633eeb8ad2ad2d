"""The public traces, whole: the figures of vLLM 0.26.0's own class, measured once and kept here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from golden_runs import replayed

from schedbench.results.arrays import ints, total
from schedbench.runner.clock import parse_cost
from schedbench.runner.golden_log import first_difference, read_log
from schedbench.runner.run import ReplayOptions, Run, replay
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.importers.registry import load_trace

if TYPE_CHECKING:
    from pathlib import Path

AZURE, MOONCAKE = "azure_2023_conv.csv.gz", "mooncake_fast25_conversation.jsonl.gz"


class Case(NamedTuple):
    file: str
    requests: int
    speedup: str
    num_gpu_blocks: int
    max_model_len: int
    enable_prefix_caching: bool
    passes: int
    tokens: int
    preempted: int


CASES = {
    "azure, roomy": Case(AZURE, 19_366, "1", 30_000, 16_384, True, 337_877, 26_431_169, 0),
    "azure, tight": Case(AZURE, 19_366, "3", 6_000, 16_384, True, 55_316, 27_120_033, 2_508),
    "azure, tight, no prefix cache": Case(
        AZURE, 19_366, "3", 6_000, 16_384, False, 55_291, 29_251_681, 2_488
    ),
    "mooncake": Case(MOONCAKE, 12_031, "1", 60_000, 131_072, True, 56_538, 141_545_523, 180),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_whole_trace_has_the_real_classs_passes_tokens_and_preemptions(
    case: Case, traces: Path
) -> None:
    config = SchedulerConfig(
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        max_model_len=case.max_model_len,
        num_gpu_blocks=case.num_gpu_blocks,
        enable_prefix_caching=case.enable_prefix_caching,
        async_scheduling=False,
    )
    run = replay(
        load_trace(traces / case.file),
        config,
        parse_cost("linear:8ms,0.03ms"),
        options=ReplayOptions(speedup=case.speedup),
    )
    names = ("passes", "tokens_scheduled", "preempted", "requests_finished", "requests")
    expected = (case.passes, case.tokens, case.preempted, case.requests, case.requests)
    assert tuple(run.summary[name] for name in names) == expected
    assert run.summary["prefix_hit_tokens"] == total(ints(run.requests, "cached_tokens"))
    assert run.summary["prefix_hit_tokens"] == _hits_by_what_was_not_computed(run)


def _hits_by_what_was_not_computed(run: Run) -> int:
    """A finished request's tokens but the last are each computed, found in the cache, or both."""
    known = total(ints(run.requests, "prompt_tokens") + ints(run.requests, "output_tokens") - 1)
    again = total(ints(run.requests, "recomputed_tokens"))
    return known + again - int(run.summary["tokens_scheduled"])


def test_a_golden_log_of_a_public_trace_is_equal(public_log: Path | None) -> None:
    if public_log is None:
        pytest.fail("no golden logs of public traces beside --traces: give --golden-logs DIR")
    log = read_log(public_log)
    assert first_difference(log, replayed(log)) is None
