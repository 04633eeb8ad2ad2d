"""The cap on one request's tokens in a pass, from a cap of one token on."""

from __future__ import annotations

import pytest
from stepping import a_request, step

from schedbench.sched.behaviours import RELEASES
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.scheduler import Scheduler

KINDS = [
    (release, adaptive) for release in sorted(RELEASES) for adaptive in (False, True)
    if not adaptive or SchedulerConfig(vllm_version=release).behaviour.threshold_adaptive
]  # fmt: skip


@pytest.mark.parametrize("threshold", [1, 2, 7, 64])
@pytest.mark.parametrize("num_requests", [1, 2, 3])
@pytest.mark.parametrize(("release", "adaptive"), KINDS)
def test_no_request_gets_more_than_the_threshold_and_none_less_for_no_reason(
    release: str, adaptive: bool, num_requests: int, threshold: int
) -> None:
    given = {"long_prefill_token_threshold_adaptive": True} if adaptive else {}
    behaviour = SchedulerConfig(vllm_version=release).behaviour
    config = SchedulerConfig(
        vllm_version=release, max_num_batched_tokens=60, max_num_seqs=4, max_model_len=100,
        long_prefill_token_threshold=threshold, async_scheduling=False, **given,
    )  # fmt: skip
    scheduler = Scheduler(config)
    for name in "abc"[:num_requests]:
        scheduler.add_request(a_request(name, 50, 2))
    most = max(threshold, 60 // num_requests) if adaptive else threshold
    if num_requests == 1 and behaviour.threshold_lone:
        most = 60
    left = 60
    output, _ = step(scheduler)
    for granted in output.num_scheduled_tokens.values():
        assert granted == min(50, most, left)
        left -= granted
