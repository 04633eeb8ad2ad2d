"""Who loses its blocks when the pool is short, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.kv_connector import free_or_defer
from schedbench.sched.output import Victim
from schedbench.sched.policy import State, checked_victim
from schedbench.sched.request import RequestStatus

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def evict_one(
    scheduler: Scheduler, this_pass: SchedulePass, request: Request, index: int
) -> tuple[Request, int]:
    """Evict one running request for another; returns it and the running loop's new index.

    Only under priority, or a policy of one's own, can the victim have been scheduled already in
    this pass; then its grant is undone and the loop steps back by one. A victim before the index
    that was stepped over does not move the index, so that the next request misses its turn: vLLM
    0.26.0 does so.
    """
    victim = pick_victim(scheduler, this_pass, request)
    if victim.request_id in this_pass.num_scheduled_tokens:
        this_pass.undo(victim)
        index -= 1
    this_pass.victims.append(Victim(victim, victim.num_computed_tokens))
    preempt(scheduler, victim)
    return victim, index


def pick_victim(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> Request:
    """Take the victim off the running list.

    fcfs: the last one. priority: the largest (priority, arrival time), of equals the first.
    """
    running = scheduler.running
    if "victim" in scheduler.hooks:
        policy = scheduler.policy
        chosen = policy.victim(request, State(scheduler, this_pass))
        running.remove(checked_victim(policy, chosen, scheduler))
        return chosen
    if scheduler.config.policy == "fcfs":
        return running.pop()
    victim = max(running, key=lambda each: (each.priority, each.arrival_time))
    running.remove(victim)
    return victim


def preempt(scheduler: Scheduler, request: Request) -> None:
    """Send a request that is off the running list to the front of `waiting`, with nothing computed.

    Its output stays: on its return prompt and output are computed again. A token in flight still
    arrives, and may finish the request where it waits.
    """
    scheduler.blocks_freed_preempt += free_or_defer(scheduler, request)
    if request.encoder_inputs:
        scheduler.encoder_cache.free(request)
    if scheduler.transfers is not None:
        scheduler.transfers.unfinished_prefills.discard(request)
    request.status = RequestStatus.PREEMPTED
    request.num_computed_tokens = 0
    request.num_spec_tokens = 0
    request.num_preemptions += 1
    scheduler.queues.add_evicted(request)
    if scheduler.return_path is not None:
        scheduler.return_path.event(request, "PREEMPTED", scheduler.now_ns)
