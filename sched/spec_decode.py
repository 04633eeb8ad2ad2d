"""Speculative decoding: drafts are scheduled after the last known token and verified with it.

    |--- num_computed ---|- last known -|- draft 1 -|- draft 2 -|
                         |<------- scheduled in the pass ------>|   1 + accepted drafts come back

Rejected drafts are taken off `num_computed_tokens` again; the blocks they got stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def take_drafts(request: Request, num_new_tokens: int) -> int:
    """How many of the request's drafts a grant of so many tokens covers; the others are lost."""
    covered = (
        num_new_tokens
        + request.num_computed_tokens
        - request.num_tokens
        - request.num_output_placeholders
    )
    scheduled = max(min(covered, request.num_spec_tokens), 0)
    request.num_spec_tokens = 0
    return scheduled


def wants_padding(num_new_tokens: int, this_pass: SchedulePass, config: SchedulerConfig) -> bool:
    """Whether a one-token admission is filled up with drafts, so that all decodes are of a size.

    Only beside a running request, and not where the running loop scheduled a prefill.
    """
    return (
        config.num_speculative_tokens > 0
        and num_new_tokens == 1
        and bool(this_pass.running)
        and not this_pass.prefill_scheduled
    )


def padding_fits(
    num_computed_tokens: int, this_pass: SchedulePass, config: SchedulerConfig
) -> bool:
    """Whether the padded decode has room; vLLM rather waits than schedules it unpadded."""
    padded = 1 + config.num_speculative_tokens
    return padded <= this_pass.token_budget and num_computed_tokens + padded <= config.max_model_len


def take_back_rejected(request: Request, num_drafts: int, num_sampled: int) -> None:
    """Undo what was counted for drafts that were rejected."""
    rejected = num_drafts - (num_sampled - 1)
    if request.num_computed_tokens > 0:
        request.num_computed_tokens -= rejected
    if request.num_output_placeholders > 0:
        request.num_output_placeholders -= rejected


def set_drafts(scheduler: Scheduler, drafts: Mapping[str, int]) -> None:
    """Note the drafts proposed after a pass; a request in its prefill gets none."""
    for request_id, count in drafts.items():
        request = scheduler.requests.get(request_id)
        if request is not None and not request.is_finished:
            request.num_spec_tokens = 0 if request.is_prefill_chunk else count
