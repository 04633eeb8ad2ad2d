"""Each verdict is really returned: in a golden scenario, or in a case made for it here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from golden_runs import replayed
from stepping import a_request, step
from verdict_spy import seen_verdicts

from schedbench.runner.golden_log import read_log
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.policy import Policy, Short, State
from schedbench.sched.scheduler import Scheduler
from schedbench.sched.spec_decode import set_drafts
from schedbench.sched.verdicts import LIMIT_OF, Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.sched.request import Request

GOLDEN = sorted(Path(__file__).parents[2].glob("golden*/*.jsonl.gz"))
ROOMY = {"async_scheduling": False, "block_size": 4, "max_num_seqs": 4, "max_model_len": 64}
TIGHT = ROOMY | {"num_gpu_blocks": 5, "scheduler_reserve_full_isl": False}


def _run(
    *requests: Request, passes: int = 4, policy: Policy | None = None, **flags: object
) -> Scheduler:
    scheduler = Scheduler(SchedulerConfig(**ROOMY | flags), policy=policy)
    for request in requests:
        scheduler.add_request(request)
    for _ in range(passes):
        step(scheduler)
    return scheduler


class Holds(Policy):
    """Two tokens of each prompt, and then no more."""

    def chunk_tokens(self, request: Request, granted: int, state: State) -> int:
        del state
        return 0 if request.num_computed_tokens == 2 else min(granted, 2)


class Declines(Policy):
    def may_admit(self, request: Request, state: State) -> bool:
        del request, state
        return False


class SkipsTheShort(Policy):
    def on_blocks_short(self, request: Request, state: State, *, is_running: bool) -> Short:
        del request, state, is_running
        return Short.SKIP


class StopsAtTheShort(Policy):
    def on_blocks_short(self, request: Request, state: State, *, is_running: bool) -> Short:
        del request, state, is_running
        return Short.STOP


def a_model_that_ends_by_itself() -> None:
    _run(a_request("a", 4, 9, eos_after=2))


def drafts_of_an_admission_pass_the_longest_sequence() -> None:
    scheduler = _run(
        a_request("a", 1, 5), passes=1, num_speculative_tokens=3, max_model_len=3, num_gpu_blocks=9
    )
    set_drafts(scheduler, {"a": 1})
    scheduler.add_request(a_request("b", 1, 1))
    step(scheduler)


def a_policy_holds_back_a_prompt_it_began() -> None:
    _run(a_request("a", 8, 1), policy=Holds())


def a_policy_declines_an_admission() -> None:
    _run(a_request("a", 8, 1), policy=Declines())


def a_policy_skips_whoever_is_short_of_blocks() -> None:
    """Two prompts of two blocks fill the pool; then both want a third, and a third request two."""
    two = (a_request("a", 8, 5), a_request("b", 8, 5))
    _run(*two, a_request("c", 8, 5), policy=SkipsTheShort(), **TIGHT)


def a_policy_stops_at_whoever_is_short_of_blocks() -> None:
    _run(a_request("a", 8, 5), a_request("b", 8, 5), policy=StopsAtTheShort(), **TIGHT)


def modules_of_a_drafter_read_past_a_chunk() -> None:
    """Two modules read two tokens past a chunk: of five known, a budget of four leaves but one.

    Then three are granted, and a budget of one leaves one of the last two: nothing is granted.
    """
    mtp = {"vllm_version": "0.33.0", "spec_method": "mtp", "num_speculative_tokens": 2}
    flags = mtp | {"mtp_layers": 2, "max_num_seqs": 2, "max_num_batched_tokens": 64}
    scheduler = _run(a_request("a", 5, 1), passes=1, max_num_scheduled_tokens=4, **flags)
    assert scheduler.requests["a"].num_computed_tokens == 3
    scheduler.add_request(a_request("b", 2, 1))
    scheduler.config = SchedulerConfig(**ROOMY | flags, max_num_scheduled_tokens=1)
    step(scheduler)
    _run(a_request("a", 2, 1), passes=1, max_num_scheduled_tokens=1, **flags)


BY_HAND: list[Callable[[], None]] = [
    a_model_that_ends_by_itself,
    drafts_of_an_admission_pass_the_longest_sequence,
    a_policy_holds_back_a_prompt_it_began,
    a_policy_declines_an_admission,
    a_policy_skips_whoever_is_short_of_blocks,
    a_policy_stops_at_whoever_is_short_of_blocks,
    modules_of_a_drafter_read_past_a_chunk,
]


@pytest.fixture(scope="module")
def reached() -> set[Verdict]:
    with seen_verdicts() as seen:
        for path in GOLDEN:
            replayed(read_log(path))
        for case in BY_HAND:
            case()
    return seen


@pytest.mark.parametrize("verdict", Verdict, ids=lambda verdict: verdict.label)
def test_a_verdict_is_reached(verdict: Verdict, reached: set[Verdict]) -> None:
    assert verdict in reached


def test_every_verdict_that_ends_a_pass_stands_for_a_limit() -> None:
    assert {verdict for verdict in Verdict if verdict.kind is Kind.STOP} == set(LIMIT_OF)
