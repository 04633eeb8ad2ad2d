"""What each hook of a policy decides, and what it may not decide."""

from collections.abc import Callable
from typing import Any

import pytest
from by_hand import PLENTY, TIGHT, make, names, step, until_eviction

from schedbench import Policy, Request, SchedulerConfig, Short, State
from schedbench.errors import UsageError
from schedbench.sched.output import SchedulerOutput
from schedbench.sched.verdicts import Verdict


class LastFirst(Policy):
    def waiting_key(self, request: Request, state: State) -> int:
        del state
        return -request.arrival_time


def test_waiting_key_orders_the_queue() -> None:
    assert names(step(make(PLENTY, LastFirst(), 4, 4, 4)).scheduled_new_reqs) == ["c", "b", "a"]
    assert names(step(make(PLENTY, None, 4, 4, 4)).scheduled_new_reqs) == ["a", "b", "c"]


def test_equal_keys_fall_to_arrival_and_id() -> None:
    class Alike(Policy):
        def waiting_key(self, request: Request, state: State) -> int:
            del request, state
            return 0

    assert names(step(make(PLENTY, Alike(), 4, 4, 4)).scheduled_new_reqs) == ["a", "b", "c"]


def test_the_order_is_taken_anew_in_every_pass() -> None:
    class Turning(Policy):
        def waiting_key(self, request: Request, state: State) -> int:
            return request.arrival_time if state.now_ns % 2 else -request.arrival_time

    one_seat = SchedulerConfig(**{**PLENTY.as_dict(), "max_num_seqs": 1})
    scheduler = make(one_seat, Turning(), 4, 4, 4)
    assert names(step(scheduler).scheduled_new_reqs) == ["c"]
    for scheduler.now_ns in range(1, 60, 2):
        if admitted := names(step(scheduler).scheduled_new_reqs):
            break
    assert admitted == ["a"]


def test_may_admit_sets_aside_and_lets_the_next_one_in() -> None:
    class OnlyOdd(Policy):
        def may_admit(self, request: Request, state: State) -> bool:
            del state
            return request.client_index == 1

    output = step(make(PLENTY, OnlyOdd(), 4, 4, 4))
    assert names(output.scheduled_new_reqs) == ["b"]
    assert [(request.request_id, verdict) for request, verdict in output.set_aside] == [
        ("a", Verdict.POLICY_DECLINED),
        ("c", Verdict.POLICY_DECLINED),
    ]


def test_chunk_tokens_cuts_prompts_and_holds_running_requests() -> None:
    class Chunks(Policy):
        def chunk_tokens(self, request: Request, granted: int, state: State) -> int:
            if request.request_id == "b" and request in state.running:
                return 0
            return min(granted, 3)

    scheduler = make(PLENTY, Chunks(), 8, 3)
    assert step(scheduler).num_scheduled_tokens == {"a": 3, "b": 3}
    assert step(scheduler).num_scheduled_tokens == {"a": 3}


def test_victim_chooses_who_is_evicted() -> None:
    class Oldest(Policy):
        def victim(self, request: Request, state: State) -> Request:
            del request
            return min(state.running, key=lambda each: each.arrival_time)

    def evicted(policy: Policy | None) -> list[str]:
        output = until_eviction(make(TIGHT, policy, 10, 10, 4))
        return [victim.request.request_id for victim in output.victims]

    assert evicted(None) == ["c"]
    assert evicted(Oldest()) == ["a"]


def test_a_victim_that_was_scheduled_already_gives_its_tokens_back() -> None:
    class First(Policy):
        def victim(self, request: Request, state: State) -> Request:
            del request
            return state.running[0]

    output = until_eviction(make(TIGHT, First(), 10, 10, 4))
    gone = {victim.request.request_id for victim in output.victims}
    assert gone
    assert not gone & output.num_scheduled_tokens.keys()
    assert output.decode_tokens == len(output.num_scheduled_tokens)


def test_on_blocks_short_may_pass_a_running_request_over_or_end_the_loop() -> None:
    def ends(short: Short) -> SchedulerOutput:
        class Shy(Policy):
            def on_blocks_short(self, request: Request, state: State, *, is_running: bool) -> Short:
                del request, state
                return short if is_running else Short.STOP

        scheduler = make(TIGHT, Shy(), 10, 10, 4)
        before = len(step(scheduler).num_scheduled_tokens)
        for _ in range(30):
            output = step(scheduler)
            if len(output.num_scheduled_tokens) < before:
                return output
        raise AssertionError("blocks were never short")

    assert not ends(Short.SKIP).victims
    assert ends(Short.SKIP).running_stop is Verdict.LIST_DONE
    assert ends(Short.STOP).running_stop is Verdict.BLOCKS_SHORT_STOPPED


def test_on_blocks_short_may_let_a_smaller_request_overtake() -> None:
    class Overtaking(Policy):
        def on_blocks_short(self, request: Request, state: State, *, is_running: bool) -> Short:
            del request, state
            return Short.PREEMPT if is_running else Short.SKIP

    assert names(step(make(TIGHT, None, 20, 20, 4)).scheduled_new_reqs) == ["a"]
    output = step(make(TIGHT, Overtaking(), 20, 20, 4))
    assert names(output.scheduled_new_reqs) == ["a", "c"]
    assert output.set_aside[0][1] is Verdict.BLOCKS_SHORT_SET_ASIDE


def test_headroom_blocks_keeps_blocks_free_at_admissions() -> None:
    class Careful(Policy):
        def headroom_blocks(self, request: Request, state: State) -> int:
            del request
            return 5 if state.running else 0

    assert names(step(make(TIGHT, Careful(), 4, 8, 4)).scheduled_new_reqs) == ["a", "b"]
    assert names(step(make(TIGHT, None, 4, 8, 4)).scheduled_new_reqs) == ["a", "b", "c"]


def test_pass_budget_sets_the_budget_of_each_pass() -> None:
    class Slow(Policy):
        def pass_budget(self, state: State) -> int:
            return 5 if state.num_waiting else 64

    scheduler = make(PLENTY, Slow(), 8, 8)
    outputs = [step(scheduler) for _ in range(4)]
    assert [output.token_budget for output in outputs] == [5, 5, 64, 64]
    assert outputs[0].num_scheduled_tokens == {"a": 5}


def test_a_policy_sees_the_clock_the_queues_the_pool_and_the_prefix_cache() -> None:
    seen: list[tuple[int, int, int, int, int]] = []

    class Looking(Policy):
        def may_admit(self, request: Request, state: State) -> bool:
            cached = state.cached_tokens(request)
            waiting = sum(1 for _ in state.waiting)
            assert waiting == state.num_waiting
            seen.append((state.now_ns, waiting, state.free_blocks, state.tokens_left, cached))
            return True

    scheduler = make(PLENTY, Looking(), 8, 4)
    scheduler.now_ns = 7
    step(scheduler)
    assert seen == [(7, 2, 99, 64, 0), (7, 1, 97, 56, 0)]


def refusing(hook: str, decision: Callable[..., Any]) -> Policy:
    """A policy with one hook."""
    return type("Wrong", (Policy,), {hook: decision})()


@pytest.mark.parametrize(
    ("hook", "decision", "said"),
    [
        ("chunk_tokens", lambda *_: 99, "chunk_tokens returned 99 for request a; from 0 to the 10"),
        ("chunk_tokens", lambda *_: -1, "chunk_tokens returned -1"),
        ("headroom_blocks", lambda *_: -1, "headroom_blocks returned -1 for request a"),
        ("pass_budget", lambda *_: 65, "pass_budget returned 65; from 0 to the 64 tokens"),
        ("pass_budget", lambda *_: -1, "pass_budget returned -1"),
        ("victim", lambda *asked: next(iter(asked[-1].waiting)), "which is not running"),
        ("on_blocks_short", lambda *_, **__: "no", "may return Short.SKIP or STOP"),
        ("on_blocks_short", lambda *_, **__: Short.PREEMPT, "SKIP or STOP: it waits"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_by_name(
    hook: str, decision: Callable[..., Any], said: str
) -> None:
    scheduler = make(TIGHT, refusing(hook, decision), 10, 10, 4, 9)
    with pytest.raises(UsageError, match="policy Wrong: ") as caught:
        until_eviction(scheduler)
    assert said in str(caught.value)
