"""Second loop: requests waiting, from the head of the queue, for as long as all limits allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.sched import encoder_cache, kv_connector, lora, spec_decode, token_demand
from schedbench.sched.blocked import what_it_awaits
from schedbench.sched.endings import Ending, ends
from schedbench.sched.kv_cache.manager import SlotDemand
from schedbench.sched.pause import PauseState
from schedbench.sched.policy import (
    Short,
    State,
    policy_headroom,
    policy_on_short,
    policy_tokens,
)
from schedbench.sched.request import RequestStatus
from schedbench.sched.verdicts import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.sched.encoder_cache import EncoderGrant
    from schedbench.sched.kv_cache.block_table import Hit
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


@dataclass(slots=True)
class Offer:
    """What a waiting request brings along and would get; counts of tokens.

    |<- hit blocks ->|<- num_external_tokens ->|<- num_new_tokens ->|
    |<--------- num_computed_tokens ---------->|
    """

    hit: Hit | Sequence[int]
    num_external_tokens: int
    num_computed_tokens: int
    loads_async: bool = False
    num_new_tokens: int = 0
    num_padded_drafts: int = 0
    encoder: EncoderGrant | None = None


def admit_waiting(scheduler: Scheduler, this_pass: SchedulePass) -> Verdict:
    """Admit from the queues; says why it ended."""
    queues = scheduler.queues
    if "waiting_key" in scheduler.hooks:
        queues.begin_pass()
    while (stop := limit_reached(scheduler, this_pass)) is None:
        request = queues.head()
        verdict = consider(scheduler, this_pass, request)
        if verdict.kind is Kind.STOP:
            stop = verdict
            break
        if verdict.kind is Kind.ASIDE:
            this_pass.set_aside.append((request, verdict))
    queues.end_pass()
    return stop


def limit_reached(scheduler: Scheduler, this_pass: SchedulePass) -> Verdict | None:
    """Limits that hold whoever is next. A session waiting for input keeps its seat."""
    if not scheduler.queues:
        return Verdict.QUEUES_EMPTY
    if this_pass.token_budget <= 0:
        return Verdict.BUDGET_SPENT
    if scheduler.pause_state is PauseState.PAUSED_NEW and not scheduler.queues.num_holding_kv:
        return Verdict.PAUSED_NEW
    seats_taken = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
    if seats_taken >= scheduler.config.seats:
        return Verdict.SEATS_FULL
    return None


def consider(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> Verdict:
    """Decide on the request at the head, and act on it: admit, set aside, or leave it there."""
    offer = make_offer(scheduler, this_pass, request)
    if isinstance(offer, Verdict):
        if offer.kind is Kind.ASIDE:
            scheduler.queues.set_head_aside()
        return offer
    if offer.hit and request.block_ids:
        raise ends(Ending.HIT_BESIDE_BLOCKS, scheduler.config)
    demand = slot_demand(scheduler, this_pass, request, offer)
    if shortage := scheduler.kv_cache.shortage(request, demand):
        if request.encoder_inputs:
            scheduler.encoder_cache.free(request)
        if policy_passes_over(scheduler, this_pass, request):
            scheduler.queues.set_head_aside()
            return Verdict.BLOCKS_SHORT_SET_ASIDE
        return shortage
    scheduler.kv_cache.admit(request, demand)
    if scheduler.config.behaviour.stats_at_admission:
        count_lookup(scheduler, this_pass, request)
    if scheduler.transfers is not None:
        connector = scheduler.transfers.connector
        connector.update_state_after_alloc(request, offer.num_external_tokens)
    scheduler.queues.pop_head()
    if offer.loads_async:
        return begin_load(scheduler, request, offer)
    return seat(scheduler, this_pass, request, offer)


def make_offer(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> Offer | Verdict:
    """Look up what is computed, and size the chunk after it; or why there can be none."""
    offer = look_up(scheduler, this_pass, request)
    if isinstance(offer, Verdict) or offer.loads_async:
        return offer
    return size_offer(scheduler, this_pass, request, offer) or offer


def look_up(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> Offer | Verdict:
    """Look up what of the request is computed already, here or elsewhere."""
    if request.is_blocked or request.num_stale_output_tokens:
        awaited = what_it_awaits(scheduler, request)
        if awaited is not None:
            return awaited
    if lora.slots_full(request, this_pass, scheduler.config):
        return Verdict.LORA_SLOTS_FULL
    if "may_admit" in scheduler.hooks and not scheduler.policy.may_admit(
        request, State(scheduler, this_pass)
    ):
        return Verdict.POLICY_DECLINED
    if request.num_computed_tokens:  # loaded from elsewhere, or a session going on
        return Offer((), 0, request.num_computed_tokens)
    config = scheduler.config
    if request.resumable and config.hash_lookahead_tokens:
        request.identity.rehash()  # a hash may cover a token that the session dropped
    hit = scheduler.kv_cache.get_computed_blocks(request)
    num_hit_tokens = len(hit) * config.block_size
    this_pass.lookups[request.request_id] = num_hit_tokens
    if not config.behaviour.stats_at_admission:
        count_lookup(scheduler, this_pass, request)
    if scheduler.transfers is None:
        return Offer(hit, 0, num_hit_tokens)
    connector = scheduler.transfers.connector
    external, loads_async = connector.get_num_new_matched_tokens(request, num_hit_tokens)
    if external is None:
        return Verdict.REMOTE_LOOKUP_PENDING
    return Offer(hit, external, num_hit_tokens + external, loads_async)


def count_lookup(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> None:
    """Count the request's lookup of this pass, if there was one, in the statistics."""
    num_hit_tokens = this_pass.lookups.get(request.request_id)
    if scheduler.return_path is not None and num_hit_tokens is not None:
        scheduler.return_path.looked_up(request, num_hit_tokens)


def size_offer(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, offer: Offer
) -> Verdict | None:
    """Find the tokens to compute in this pass; a verdict if there can be none."""
    config = scheduler.config
    wanted = request.num_tokens - offer.num_computed_tokens
    if wanted <= 0:
        raise ends(Ending.EMPTY_ADMISSION, config)
    if this_pass.defer_prefills and wanted > 1:
        return Verdict.PREFILLS_HELD
    padding = spec_decode.padding(wanted, offer.num_computed_tokens, this_pass, config)
    if isinstance(padding, Verdict):
        return padding
    offer.num_padded_drafts = padding
    granted = token_demand.of_waiting(wanted + padding, this_pass, config)
    if isinstance(granted, Verdict):
        return granted
    if "chunk_tokens" in scheduler.hooks:
        granted = policy_tokens(scheduler, this_pass, request, granted)
        if granted == 0:
            return Verdict.POLICY_DECLINED
    offer.num_new_tokens = granted
    if request.encoder_inputs or this_pass.reach:
        return cut_to_nothing(scheduler, this_pass, request, offer)
    return None


def cut_to_nothing(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, offer: Offer
) -> Verdict | None:
    """Cut the offer to what its encoder inputs and the drafter's reach allow.

    A verdict if that is nothing: admission ends, or the next one is tried.
    """
    config = scheduler.config
    goes_on = config.behaviour.zero_skip
    chunk = (offer.num_computed_tokens, offer.num_new_tokens)
    if request.encoder_inputs:
        offer.encoder = encoder_cache.fit_inputs(
            scheduler.encoder_cache, request, chunk, this_pass.encoder_budget, config
        )
        this_pass.cut_by_encoder |= offer.encoder.is_short
        offer.num_new_tokens = offer.encoder.num_new_tokens
        if not offer.num_new_tokens:
            encoder_cache.unfit(scheduler, request, offer.encoder)
            return Verdict.ENCODER_SET_ASIDE if goes_on else Verdict.ENCODER_FULL
    if this_pass.reach:
        offer.num_new_tokens = token_demand.off_the_end(
            request, offer.num_computed_tokens, offer.num_new_tokens, this_pass.reach
        )
    if offer.num_new_tokens:
        return None
    return Verdict.READ_AHEAD_SET_ASIDE if goes_on else Verdict.PROMPT_OVER_BUDGET


def slot_demand(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, offer: Offer
) -> SlotDemand:
    """Blocks the offer takes, and those it has to leave free."""
    transfers = scheduler.transfers
    reserved = 0
    if offer.loads_async and transfers is not None:
        reserved = kv_connector.reserved_blocks(scheduler, transfers)
    return SlotDemand(
        offer.num_new_tokens,
        offer.hit,
        offer.num_external_tokens,
        lookahead_tokens=0 if offer.loads_async else scheduler.config.lookahead_tokens,
        headroom_blocks=headroom_blocks(scheduler, this_pass, request),
        reserved_blocks=reserved,
        caches=not offer.loads_async,
    )


def headroom_blocks(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> int:
    """The watermark; not while nothing is running, nor to a request that was queued twice."""
    if "headroom_blocks" in scheduler.hooks:
        return policy_headroom(scheduler, this_pass, request)
    waits = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
    return scheduler.config.watermark_blocks if scheduler.running and waits else 0


def policy_passes_over(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> bool:
    """Whether a policy of one's own lets others overtake a request that lacks blocks."""
    if "on_blocks_short" not in scheduler.hooks:
        return False
    return policy_on_short(scheduler, this_pass, request, is_running=False) is Short.SKIP


def begin_load(scheduler: Scheduler, request: Request, offer: Offer) -> Verdict:
    """Let a request wait, with its blocks, for KV that is loaded asynchronously."""
    assert scheduler.transfers is not None
    request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
    request.num_computed_tokens = offer.num_computed_tokens
    scheduler.queues.put_aside(request)
    scheduler.transfers.unfinished_prefills.add(request)
    return Verdict.LOADING_REMOTE_KV


def seat(scheduler: Scheduler, this_pass: SchedulePass, request: Request, offer: Offer) -> Verdict:
    """Put an admitted request, with its blocks, at the end of the running list."""
    if spec_decode.is_cut(offer.num_new_tokens, offer.num_padded_drafts, scheduler.config):
        raise ends(Ending.CUT_PADDING, scheduler.config)
    if request.status is RequestStatus.RUNNING or request.is_finished:
        raise ends(Ending.QUEUED_TWICE, scheduler.config)
    scheduler.running.append(request)
    resumed = request.status is RequestStatus.PREEMPTED
    (this_pass.resumed if resumed else this_pass.new).append(request)
    request.status = RequestStatus.RUNNING
    request.num_computed_tokens = offer.num_computed_tokens
    if request.lora_id:
        this_pass.loras.add(request.lora_id)
    this_pass.grant_admission(
        request, offer.num_computed_tokens, offer.num_new_tokens, offer.num_padded_drafts
    )
    if offer.encoder is not None:
        this_pass.encoder_grant = offer.encoder
        this_pass.grant_encoder_inputs(request, scheduler.encoder_cache)
    ends_at = offer.num_computed_tokens + offer.num_new_tokens
    if scheduler.transfers is not None and ends_at < request.num_tokens:
        scheduler.transfers.unfinished_prefills.add(request)
    return Verdict.RESUMED if resumed else Verdict.ADMITTED
