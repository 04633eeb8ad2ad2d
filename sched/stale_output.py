"""Output in flight for a request that lost its place: delivered late, or thrown away.

A pass is in flight from its `schedule` to its fold. When a request is evicted meanwhile, what the
pass brings is stale: the tokens are real, the counts they were scheduled with are gone.

    0.26.0   counts outputs, after a cache reset only; otherwise a stale output counts as any other
    0.33.0   counts the tokens in flight, lets them drain pass by pass, and delivers or drops them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler


def at_eviction(scheduler: Scheduler, request: Request) -> None:
    """Mark what is in flight for a victim; it is thrown away where its KV had to be handed on."""
    behaviour, transfers = scheduler.config.behaviour, scheduler.transfers
    drops = behaviour.drop_stale and transfers is not None and transfers.must_hand_kv_on
    if drops or behaviour.stale_output:
        mark(scheduler, request, drops=drops)


def at_reset(scheduler: Scheduler, request: Request, num_placeholders: int) -> None:
    """Mark what is in flight for the victim of a cache reset, which may come back at once."""
    if scheduler.config.behaviour.reset_drop:
        mark(scheduler, request, drops=True)
    else:
        request.num_outputs_to_discard = num_placeholders
        request.num_output_placeholders = 0


def mark(scheduler: Scheduler, request: Request, *, drops: bool) -> None:
    """Make stale what is in flight. What was to be dropped before is so still."""
    undrained = request.num_stale_output_tokens > 0
    request.drops_stale_output = drops or (request.drops_stale_output and undrained)
    request.num_stale_output_tokens = tokens_in_flight(scheduler, request)
    request.num_output_placeholders = 0


def tokens_in_flight(scheduler: Scheduler, request: Request) -> int:
    """Tokens of the request in passes that are scheduled and not folded in."""
    request_id = request.request_id
    count = 0
    for output in scheduler.in_flight:
        count += output.num_scheduled_tokens.get(request_id, 0)
    return count


def pass_is_back(scheduler: Scheduler, scheduler_output: SchedulerOutput) -> None:
    """Take a pass off those in flight, with any before it that never came back."""
    in_flight = scheduler.in_flight
    while in_flight and in_flight.popleft() is not scheduler_output:
        pass


def drain(request: Request, num_scheduled_tokens: int) -> None:
    """Count a pass off those that bring stale tokens."""
    request.num_stale_output_tokens -= num_scheduled_tokens


def discard(request: Request) -> None:
    """Count one off the outputs that a cache reset made stale, as 0.26.0 counts them."""
    request.num_outputs_to_discard -= 1
