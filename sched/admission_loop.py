"""Second loop: requests waiting, from the head of the queue, for as long as all limits allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched import lora, token_demand
from schedbench.sched.kv_cache.manager import SlotDemand
from schedbench.sched.request import RequestStatus
from schedbench.sched.request_queue import create_request_queue
from schedbench.sched.verdicts import Kind, Verdict

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import RequestQueue
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def admit_waiting(scheduler: Scheduler, this_pass: SchedulePass) -> Verdict:
    """Admit from the queues; says why it ended.

    Requests set aside go back to the front of `skipped_waiting` in their own order.
    """
    aside = create_request_queue(scheduler.config.policy)
    stop = None
    while stop is None:
        stop = _limit_reached(scheduler, this_pass)
        if stop is not None:
            break
        queue = scheduler.next_queue()
        request = queue.peek_request()
        verdict = consider(scheduler, this_pass, request, queue)
        if verdict.kind is Kind.STOP:
            stop = verdict
        elif verdict.kind is Kind.ASIDE:
            queue.pop_request()
            aside.prepend_request(request)
            this_pass.set_aside.append((request, verdict))
    if len(aside):
        scheduler.skipped_waiting.prepend_requests(aside)
    return stop


def _limit_reached(scheduler: Scheduler, this_pass: SchedulePass) -> Verdict | None:
    """Limits that hold whoever is next."""
    if not (scheduler.waiting or scheduler.skipped_waiting):
        return Verdict.QUEUES_EMPTY
    if this_pass.token_budget == 0:
        return Verdict.BUDGET_SPENT
    if len(scheduler.running) >= scheduler.config.max_num_seqs:
        return Verdict.SEATS_FULL
    return None


def consider(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, queue: RequestQueue
) -> Verdict:
    """Decide on the request at the head of `queue`, and admit it if nothing speaks against it."""
    config, kv_cache = scheduler.config, scheduler.kv_cache
    if lora.slots_full(request, this_pass, config):
        return Verdict.LORA_SLOTS_FULL

    hit = kv_cache.get_computed_blocks(request)
    num_hit_tokens = len(hit) * config.block_size
    this_pass.lookups[request.request_id] = num_hit_tokens
    if this_pass.defer_prefills and num_hit_tokens < request.num_tokens - 1:
        return Verdict.PREFILLS_HELD

    wanted = token_demand.of_waiting(request, num_hit_tokens, this_pass.token_budget, config)
    if isinstance(wanted, Verdict):
        return wanted

    demand = SlotDemand(wanted, hit, headroom_blocks(scheduler))
    if shortage := kv_cache.shortage(request, demand):
        return shortage
    kv_cache.admit(request, demand)
    queue.pop_request()
    return _seat(scheduler, this_pass, request, num_hit_tokens, wanted)


def headroom_blocks(scheduler: Scheduler) -> int:
    """The watermark; it does not apply while nothing is running."""
    return scheduler.config.watermark_blocks if scheduler.running else 0


def _seat(
    scheduler: Scheduler,
    this_pass: SchedulePass,
    request: Request,
    num_computed_tokens: int,
    num_new_tokens: int,
) -> Verdict:
    """Put an admitted request, with its blocks, at the end of the running list."""
    scheduler.running.append(request)
    resumed = request.status is RequestStatus.PREEMPTED
    (this_pass.resumed if resumed else this_pass.new).append(request)
    request.status = RequestStatus.RUNNING
    request.num_computed_tokens = num_computed_tokens
    if request.lora_id:
        this_pass.loras.add(request.lora_id)
    this_pass.grant_admission(request, num_computed_tokens, num_new_tokens)
    return Verdict.RESUMED if resumed else Verdict.ADMITTED
