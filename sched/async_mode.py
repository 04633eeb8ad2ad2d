"""Running ahead: a pass is scheduled while earlier ones are still in flight.

A request that is past its prefill is sure to get a token from the pass in flight, so that token
is counted as known before it comes (a placeholder), with the drafts that will be proposed.

    num_tokens known          placeholders of passes in flight
    |------------------------|-------------------|
    |------ num_computed_tokens (all of them) ---|
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


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


def tokens_came(scheduler: Scheduler, request: Request, count: int, *, was_running: bool) -> None:
    """Replace placeholders by the tokens that came; hash the blocks they fill.

    Drafts among the placeholders kept those blocks from being hashed at allocation.
    """
    request.num_output_placeholders -= count
    if was_running:
        known = request.num_computed_tokens - request.num_output_placeholders
        scheduler.kv_cache.cache_blocks(request, known)


def is_stale(request: Request) -> bool:
    """Whether an output was in flight when the prefix cache was reset; it is dropped once."""
    if request.num_outputs_to_discard == 0:
        return False
    request.num_outputs_to_discard -= 1
    return True
