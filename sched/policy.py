"""The few decisions people replace, as methods with stable names.

A policy reads state and returns a decision; it never touches blocks, queues or requests. What it
returns is checked: too many tokens, or a victim that does not run, is an error that names it. Ties
fall to (arrival, id). A subclass overrides what it wants to change; whatever it leaves alone takes
the plain way, at no cost.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler

Key = tuple[float | int | str, ...] | float | int

HOOKS = (
    "waiting_key",
    "may_admit",
    "chunk_tokens",
    "victim",
    "on_blocks_short",
    "headroom_blocks",
    "pass_budget",
)


class Short(Enum):
    """What to do about a request that finds too few free blocks."""

    PREEMPT = "preempt"  # evict others until it fits; running requests only
    SKIP = "skip"  # go on with the next one
    STOP = "stop"  # end the loop


class State:
    """What a policy may look at. Times in ns, counts in tokens, requests and blocks."""

    def __init__(self, scheduler: Scheduler, this_pass: SchedulePass | None = None) -> None:
        self._scheduler = scheduler
        self._this_pass = this_pass

    @property
    def now_ns(self) -> int:
        """The clock at this `schedule()`."""
        return self._scheduler.now_ns

    @property
    def config(self) -> SchedulerConfig:
        return self._scheduler.config

    @property
    def running(self) -> Sequence[Request]:
        return tuple(self._scheduler.running)

    @property
    def waiting(self) -> Iterator[Request]:
        """All requests in the queues, in no promised order."""
        return iter(self._scheduler.queues)

    @property
    def num_waiting(self) -> int:
        return len(self._scheduler.queues)

    @property
    def free_blocks(self) -> int:
        return self._scheduler.kv_cache.pool.num_free

    @property
    def tokens_left(self) -> int:
        """What is left of this pass's budget; the whole budget before the pass begins."""
        return self._this_pass.token_budget if self._this_pass else self.config.token_budget

    def cached_tokens(self, request: Request) -> int:
        """Tokens of a waiting request that the prefix cache holds right now."""
        kv_cache = self._scheduler.kv_cache
        return len(kv_cache.get_computed_blocks(request)) * kv_cache.block_size


class Policy:
    """vLLM's own decisions. Subclass it, and name the subclass with `--policy-class`."""

    def waiting_key(self, request: Request, state: State) -> Key:
        """Who waits in front: the smallest key first. Asked once a pass for everyone waiting."""
        if state.config.policy == "priority":
            return (request.priority, request.arrival_time)
        return request.arrival_time

    def may_admit(self, request: Request, state: State) -> bool:
        """Whether the request at the head may be admitted now; else the next one is tried."""
        del request, state
        return True

    def chunk_tokens(self, request: Request, granted: int, state: State) -> int:
        """How many of the tokens that vLLM would grant the request gets; 0 passes it over."""
        del request, state
        return granted

    def victim(self, request: Request, state: State) -> Request:
        """Who is evicted so that `request` gets blocks; must be running, may be itself."""
        del request
        if state.config.policy == "fcfs":
            return state.running[-1]
        return max(state.running, key=lambda each: (each.priority, each.arrival_time))

    def on_blocks_short(self, request: Request, state: State, *, is_running: bool) -> Short:
        """What happens when blocks are short; a waiting request cannot preempt."""
        del request, state
        return Short.PREEMPT if is_running else Short.STOP

    def headroom_blocks(self, request: Request, state: State) -> int:
        """Blocks that must stay free when `request` is admitted."""
        del request
        return state.config.watermark_blocks if state.running else 0

    def pass_budget(self, state: State) -> int:
        """Tokens the pass about to begin may schedule."""
        return state.config.token_budget


def overridden(policy: Policy) -> frozenset[str]:
    """The hooks that a policy's class replaces."""
    own = type(policy)
    return frozenset(name for name in HOOKS if getattr(own, name) is not getattr(Policy, name))


def policy_tokens(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, granted: int
) -> int:
    """Ask `chunk_tokens`, and hold it to what vLLM would have granted."""
    policy = scheduler.policy
    tokens = policy.chunk_tokens(request, granted, State(scheduler, this_pass))
    if not 0 <= tokens <= granted:
        raise UsageError(
            f"policy {type(policy).__name__}: chunk_tokens returned {tokens} for request "
            f"{request.request_id}; from 0 to the {granted} granted is allowed"
        )
    return tokens


def policy_budget(scheduler: Scheduler) -> int:
    """Ask `pass_budget`, and hold it to what a pass may schedule at most."""
    policy, most = scheduler.policy, scheduler.config.token_budget
    tokens = policy.pass_budget(State(scheduler))
    if not 0 <= tokens <= most:
        raise UsageError(
            f"policy {type(policy).__name__}: pass_budget returned {tokens}; from 0 to the {most} "
            "tokens of --max-num-batched-tokens is allowed"
        )
    return tokens


def policy_headroom(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> int:
    """Ask `headroom_blocks`, and hold it to a count."""
    policy = scheduler.policy
    blocks = policy.headroom_blocks(request, State(scheduler, this_pass))
    if blocks < 0:
        raise UsageError(
            f"policy {type(policy).__name__}: headroom_blocks returned {blocks} for request "
            f"{request.request_id}; it is a count of blocks, 0 or more"
        )
    return blocks


def policy_on_short(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, *, is_running: bool
) -> Short:
    """Ask `on_blocks_short`, and keep a waiting request from evicting others."""
    policy = scheduler.policy
    state = State(scheduler, this_pass)
    short = policy.on_blocks_short(request, state, is_running=is_running)
    if not isinstance(short, Short) or (short is Short.PREEMPT and not is_running):
        allowed = "PREEMPT, SKIP or STOP" if is_running else "SKIP or STOP: it waits"
        raise UsageError(
            f"policy {type(policy).__name__}: on_blocks_short returned {short} for request "
            f"{request.request_id}; it may return Short.{allowed}"
        )
    return short


def checked_victim(policy: Policy, victim: Request, scheduler: Scheduler) -> Request:
    """Hold `victim` to the running requests."""
    if victim not in scheduler.running:
        raise UsageError(
            f"policy {type(policy).__name__}: victim returned {victim!r}, which is not running"
        )
    return victim
