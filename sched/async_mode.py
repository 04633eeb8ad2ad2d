"""Running ahead: a pass is scheduled while earlier ones are still in flight.

A request that is past its prefill is sure to get a token from the pass in flight, so that token
is counted as known before it comes (a placeholder), with the drafts that will be proposed.

    num_tokens known          placeholders of passes in flight
    |------------------------|-------------------|
    |------ num_computed_tokens (all of them) ---|
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.endings import Ending, ends
from schedbench.sched.stale_output import tokens_in_flight

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler

    Settle = Callable[[Scheduler, Request, int, int, bool], None]


def cap_is_in_flight(request: Request) -> bool:
    """Whether the passes in flight are sure to bring the request to its `max_tokens`.

    Sure even if every draft among the placeholders is rejected: one placeholder is a real token.
    """
    placeholders = request.num_output_placeholders
    return (
        placeholders > 0
        and request.num_computed_tokens + 2 - placeholders
        >= request.num_prompt_tokens + request.max_tokens
    )


def add_placeholders(scheduler: Scheduler, this_pass: SchedulePass) -> None:
    """Count the tokens that the pass just scheduled will bring, and the drafts after them."""
    next_drafts = scheduler.config.num_speculative_tokens
    for request_id in this_pass.num_scheduled_tokens:
        request = scheduler.requests[request_id]
        if not request.is_prefill_chunk:
            request.num_output_placeholders += 1 + this_pass.drafts.get(request_id, 0)
            request.num_spec_tokens = next_drafts


def settler(config: SchedulerConfig) -> Settle | None:
    """What tokens that come change besides the count of known ones, as the release has it."""
    speculates = config.num_speculative_tokens > 0
    if config.behaviour.cache_at_update:
        return settle_what_is_sure if config.runs_ahead or speculates else None
    if config.runs_ahead:
        return settle_what_is_known
    return settle_what_was_cut if speculates and config.behaviour.streaming_frontier else None


def settle_what_is_known(
    scheduler: Scheduler, request: Request, num_sampled: int, num_taken: int, was_running: bool
) -> None:
    """Replace placeholders by the tokens that came; hash the blocks they fill.

    Drafts among the placeholders kept those blocks from being hashed at allocation.
    """
    if num_taken != num_sampled:
        num_taken = cut_off(scheduler, request, num_sampled, num_taken)
    take_placeholders(scheduler, request, num_taken)
    if was_running:
        known = request.num_computed_tokens - request.num_output_placeholders
        scheduler.kv_cache.cache_blocks(request, known)


def settle_what_is_sure(
    scheduler: Scheduler, request: Request, num_sampled: int, num_taken: int, was_running: bool
) -> None:
    """Replace placeholders; hash blocks up to what no pass in flight can take back.

    What is computed runs past what is known where a failed load cut the request back meanwhile.
    """
    if num_taken != num_sampled:
        num_taken = cut_off(scheduler, request, num_sampled, num_taken)
    had_placeholders = request.num_output_placeholders > 0
    if had_placeholders:
        take_placeholders(scheduler, request, num_taken)
    if was_running and (had_placeholders or scheduler.config.num_speculative_tokens):
        sure = request.num_computed_tokens - tokens_in_flight(scheduler, request)
        known = request.num_tokens + scheduler.config.uncacheable_tokens  # it takes those off
        scheduler.kv_cache.cache_blocks(request, min(sure, known))


def settle_what_was_cut(
    scheduler: Scheduler, request: Request, num_sampled: int, num_taken: int, _was_running: bool
) -> None:
    """With no pass in flight only the tokens past a stop are left to settle."""
    cut_off(scheduler, request, num_sampled, num_taken)


def take_placeholders(scheduler: Scheduler, request: Request, num_taken: int) -> None:
    """Count tokens that came off those in flight; there cannot come more than were counted."""
    request.num_output_placeholders -= num_taken
    if request.num_output_placeholders < 0:
        raise ends(Ending.NEGATIVE_PLACEHOLDERS, scheduler.config)


def cut_off(scheduler: Scheduler, request: Request, num_sampled: int, num_taken: int) -> int:
    """Tokens sampled past a stop are not computed either; how many placeholders are settled."""
    if not scheduler.config.behaviour.streaming_frontier:
        return num_taken
    request.num_computed_tokens -= num_sampled - num_taken
    return num_sampled
