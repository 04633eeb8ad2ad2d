"""First loop: requests already running, in their order, for as long as there is budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched import async_mode, encoder_cache, kv_connector, spec_decode, token_demand
from schedbench.sched.policy import Short, policy_on_short, policy_tokens
from schedbench.sched.preemption import evict, pick_victim
from schedbench.sched.verdicts import Kind, Verdict

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def schedule_running(scheduler: Scheduler, this_pass: SchedulePass) -> Verdict:
    """Grant tokens down the running list; says why it ended.

    A request that can have none is stepped over. One that finds the pool short evicts others
    until it fits or is evicted itself.
    """
    running = scheduler.running
    index = 0
    while index < len(running):
        if this_pass.token_budget <= 0:
            this_pass.cut_by_budget = True
            return Verdict.BUDGET_SPENT
        request = running[index]
        verdict, index = schedule_one(scheduler, this_pass, request, index)
        if verdict.kind is Kind.STOP:
            return verdict
    return Verdict.LIST_DONE


def schedule_one(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, index: int
) -> tuple[Verdict, int]:
    """Grant, step over or evict one request; what came of it, and the index of the next."""
    num_new_tokens = tokens_for(scheduler, this_pass, request)
    if isinstance(num_new_tokens, Verdict):
        return num_new_tokens, index + 1
    allocate_slots = scheduler.kv_cache.allocate_slots
    while (new_blocks := allocate_slots(request, num_new_tokens)) is None:
        verdict, index = make_room(scheduler, this_pass, request, index)
        if verdict is not Verdict.PREEMPTED:
            return verdict, index
    grant(scheduler, this_pass, request, num_new_tokens, new_blocks)
    return Verdict.CONTINUED, index + 1


def make_room(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, index: int
) -> tuple[Verdict, int]:
    """Evict somebody for the request; PREEMPTED if it may try again, and the index of the next."""
    if verdict := policy_on_blocks_short(scheduler, this_pass, request):
        return verdict, index + 1
    victim = pick_victim(scheduler, this_pass, request)
    if scheduler.transfers is not None:
        verdict = kv_connector.why_not_to_evict(scheduler, scheduler.transfers, victim)
        if verdict is not None:
            return verdict, index + 1
    index = evict(scheduler, this_pass, victim, index)
    if victim is not request:
        return Verdict.PREEMPTED, index
    config = scheduler.config
    if config.policy == "priority" and config.behaviour.self_evict_continue:
        return Verdict.PREEMPTED_SELF_PASSED_OVER, index
    return Verdict.PREEMPTED_SELF, index


def tokens_for(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> int | Verdict:
    """Tokens a running request gets if there are blocks, or why it is stepped over."""
    if request.num_output_placeholders and async_mode.cap_is_in_flight(request):
        return Verdict.OUTPUT_CAP_IN_FLIGHT
    if this_pass.defer_prefills and request.is_prefill_chunk:
        return Verdict.PREFILL_DEFERRED
    num_new_tokens = token_demand.of_running(request, this_pass, scheduler.config)
    if num_new_tokens < 0 and scheduler.config.behaviour.mtp_lookahead:
        return Verdict.NOTHING_TO_DO  # drafts rejected by a pass in flight; 0.26.0 fails
    if request.encoder_inputs and num_new_tokens:
        this_pass.encoder_grant = encoder_cache.fit_inputs(
            scheduler.encoder_cache,
            request,
            (request.num_computed_tokens, num_new_tokens),
            this_pass.encoder_budget,
            scheduler.config,
        )
        this_pass.cut_by_encoder |= this_pass.encoder_grant.is_short
        num_new_tokens = this_pass.encoder_grant.num_new_tokens
        if num_new_tokens == 0:
            return encoder_cache.unfit(scheduler, request, this_pass.encoder_grant)
    if this_pass.reach and num_new_tokens:
        num_new_tokens = token_demand.off_the_end(
            request, request.num_computed_tokens, num_new_tokens, this_pass.reach
        )
        if num_new_tokens == 0:
            return Verdict.READ_AHEAD_UNFIT
    if "chunk_tokens" in scheduler.hooks and num_new_tokens:
        num_new_tokens = policy_tokens(scheduler, this_pass, request, num_new_tokens)
        if num_new_tokens == 0:
            return Verdict.POLICY_HELD
    return num_new_tokens or Verdict.NOTHING_TO_DO


def grant(
    scheduler: Scheduler,
    this_pass: SchedulePass,
    request: Request,
    num_new_tokens: int,
    new_blocks: list[int],
) -> None:
    """Spend what the request was found to need; its blocks are allocated."""
    num_drafts = 0
    if request.num_spec_tokens:
        num_drafts = spec_decode.take_drafts(request, num_new_tokens)
    this_pass.grant_running(request, num_new_tokens, num_drafts, new_blocks)
    if request.encoder_inputs:
        this_pass.grant_encoder_inputs(request, scheduler.encoder_cache)


def policy_on_blocks_short(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request
) -> Verdict | None:
    """What a policy of one's own wants instead of an eviction; None: evict, as vLLM does."""
    if "on_blocks_short" not in scheduler.hooks:
        return None
    match policy_on_short(scheduler, this_pass, request, is_running=True):
        case Short.SKIP:
            return Verdict.BLOCKS_SHORT_PASSED_OVER
        case Short.STOP:
            return Verdict.BLOCKS_SHORT_STOPPED
    return None
