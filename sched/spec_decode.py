"""Speculative decoding: drafts are scheduled after the last known token and verified with it.

    |--- num_computed ---|- last known -|- draft 1 -|- draft 2 -|
                         |<------- scheduled in the pass ------>|   1 + accepted drafts come back

Rejected drafts are taken off `num_computed_tokens` again; the blocks they got stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.endings import Ending, ends
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def padding(
    num_wanted_tokens: int,
    num_computed_tokens: int,
    this_pass: SchedulePass,
    config: SchedulerConfig,
) -> int | Verdict:
    """Drafts that fill a one-token admission up, so that all decodes of a pass are of a size.

    None where the running loop scheduled a prefill. vLLM rather waits than schedules a decode
    unpadded that the budget has no room for.
    """
    drafts = config.num_speculative_tokens
    if not drafts or num_wanted_tokens != 1 or this_pass.prefill_scheduled:
        return 0
    comes_computed = num_computed_tokens > 0 and config.behaviour.pad_resumed
    if not this_pass.running and not comes_computed:
        return 0
    end = num_computed_tokens + 1 + drafts
    if config.behaviour.pad_room and end + 1 > config.max_model_len:
        return 0
    if 1 + drafts > this_pass.token_budget or end > config.max_model_len:
        return Verdict.PADDED_DECODE_UNFIT
    return drafts


def is_cut(num_new_tokens: int, num_padded_drafts: int, config: SchedulerConfig) -> bool:
    """Whether a padded admission got fewer tokens than its drafts, where that may not be."""
    return 0 < num_new_tokens <= num_padded_drafts and config.behaviour.pad_whole


def take_back_rejected(request: Request, num_drafts: int, num_sampled: int) -> None:
    """Undo what was counted for drafts that were rejected."""
    rejected = num_drafts - (num_sampled - 1)
    if request.num_computed_tokens > 0:
        request.num_computed_tokens -= rejected
    if request.num_output_placeholders > 0:
        request.num_output_placeholders -= rejected


def check_computed(scheduler: Scheduler, request_ids: Iterable[str]) -> None:
    """End where a request has fewer than no tokens computed, for none are before its prompt."""
    for request_id in request_ids:
        request = scheduler.requests.get(request_id)
        if request is not None and request.num_computed_tokens < 0:
            raise ends(Ending.NEGATIVE_COMPUTED, scheduler.config)


def set_drafts(scheduler: Scheduler, drafts: Mapping[str, int]) -> None:
    """Note the drafts proposed after a pass; a request in its prefill gets none."""
    for request_id, count in drafts.items():
        request = scheduler.requests.get(request_id)
        if request is not None and not request.is_finished:
            request.num_spec_tokens = 0 if request.is_prefill_chunk else count
