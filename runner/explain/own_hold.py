"""What would hold a waiting request if it stood first in the queue.

The state is that at the end of a pass, the budgets are those of a pass that begins. Limits of the
request's own come first (grammar, adapter, blocks and so on), then running slots, then what ended
the admission loop for every request alike. A request that none of them holds waits for its turn.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from schedbench.results.explain.holds import BEHIND_THE_HEAD
from schedbench.sched.admission_loop import make_offer, slot_demand
from schedbench.sched.kv_cache.block_table import Hit
from schedbench.sched.pause import PauseState
from schedbench.sched.token_demand import threshold_of_pass
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

FOR_ALL: Final = frozenset(
    {
        Verdict.QUEUES_EMPTY,
        Verdict.BUDGET_SPENT,
        Verdict.SEATS_FULL,
        Verdict.PAUSED_ALL,
        Verdict.PAUSED_NEW,
        Verdict.CLOSED_BY_PREEMPTION,
    }
)
"""Ends of the admission loop that hold every request alike, whichever stands at the head."""


def hold_of(scheduler: Scheduler, request: Request, stop: Verdict, loras: frozenset[int]) -> str:
    """The hold's label; `stop` ended the last pass's admission loop, which used `loras`."""
    if stop not in FOR_ALL and scheduler.queues.head() is request:
        return stop.label
    own = own_hold(scheduler, request, loras)
    return own.label if own is not None else hold_of_all(scheduler, stop)


def hold_of_all(scheduler: Scheduler, stop: Verdict) -> str:
    """What holds a request that nothing of its own holds."""
    if slots_full(scheduler):
        return Verdict.SEATS_FULL.label
    return stop.label if stop in FOR_ALL else BEHIND_THE_HEAD


def slots_full(scheduler: Scheduler) -> bool:
    taken = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
    return taken >= scheduler.config.seats


def own_hold(scheduler: Scheduler, request: Request, loras: frozenset[int]) -> Verdict | None:
    """The limit of the request's own that the admission loop would find; nothing is changed."""
    other = copy.copy(scheduler)
    other.pause_state = PauseState.UNPAUSED
    other.return_path = None
    other.request_errors = set()
    if request.encoder_inputs:
        other.encoder_cache = scheduler.encoder_cache.what_if()
    if scheduler.transfers is not None:
        other.transfers = scheduler.transfers.what_if()
        other.kv_cache = scheduler.kv_cache.what_if()
    if scheduler.hooks:
        other.policy = copy.deepcopy(scheduler.policy)
    request = copied(request)
    trial = other.start_pass(throttle_prefills=False)
    trial.loras, trial.running = set(loras), scheduler.running
    offer = make_offer(other, trial, request)
    if isinstance(offer, Verdict):
        return offer
    return other.kv_cache.shortage(request, slot_demand(other, trial, request, offer))


def copied(request: Request) -> Request:
    """A copy that a dry run may change."""
    other = copy.copy(request)
    other.block_ids = request.block_ids.copy()
    if request.block_table is not None:
        other.block_table = request.block_table.what_if(other.block_ids)
    return other


def is_plain(scheduler: Scheduler, request: Request) -> bool:
    """Whether adapters and free blocks alone decide what holds it."""
    config = scheduler.config
    return not (
        request.is_blocked
        or request.num_computed_tokens
        or request.num_stale_output_tokens
        or request.encoder_inputs
        or request.resumable
        or request.num_tokens == 1
        or scheduler.transfers is not None
        or scheduler.hooks
        or config.prefill_interval > 1
        or not config.chunked_prefill
        or config.several_mtp_modules
        or (config.threshold and config.long_prefill_token_threshold_adaptive)
        or (request.num_preemptions and request.num_tokens > config.tokens_of_pass)
    )


def blocks_needed(
    scheduler: Scheduler, request: Request, *, shares_prefixes: bool = False
) -> tuple[int, int]:
    """Free blocks that a plain request needs for its first chunk, and for all its tokens.

    What it hits and others hold is there already; what it hits in the free queue counts as needed.
    """
    config, kv_cache = scheduler.config, scheduler.kv_cache
    hit = kv_cache.get_computed_blocks(request) if shares_prefixes else ()
    held = len(hit) - kv_cache.pool.num_free_among(hit) if isinstance(hit, Hit) else 0
    num_hit_tokens = len(hit) * config.block_size
    chunk = min(request.num_tokens - num_hit_tokens, config.tokens_of_pass)
    if threshold := threshold_of_pass(config, len(scheduler.running) + len(scheduler.queues)):
        chunk = min(chunk, threshold)
    slots = num_hit_tokens + chunk + config.lookahead_tokens
    return kv_cache.blocks_for(slots) - held, kv_cache.blocks_for(request.num_tokens) - held
