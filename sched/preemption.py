"""Who loses its blocks when the pool is short, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched import stale_output
from schedbench.sched.kv_connector import free_or_defer
from schedbench.sched.output import Victim
from schedbench.sched.policy import State, checked_victim
from schedbench.sched.request import RequestStatus

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def pick_victim(scheduler: Scheduler, this_pass: SchedulePass, request: Request) -> Request:
    """Who makes room for `request`; perhaps itself.

    fcfs: the last one running. priority: the largest (priority, arrival time), of equals the first.
    """
    running = scheduler.running
    if "victim" in scheduler.hooks:
        policy = scheduler.policy
        chosen = policy.victim(request, State(scheduler, this_pass))
        return checked_victim(policy, chosen, scheduler)
    if scheduler.config.policy == "fcfs":
        return running[-1]
    return max(running, key=lambda each: (each.priority, each.arrival_time))


def evict(scheduler: Scheduler, this_pass: SchedulePass, victim: Request, index: int) -> int:
    """Evict a running request; returns the running loop's new index.

    Only under priority, or a policy of one's own, can the victim have been scheduled already in
    this pass; then its grant is undone and the loop steps back by one. A victim before the index
    that was stepped over moves the index too, or the next request misses its turn.
    """
    was_granted = victim.request_id in this_pass.num_scheduled_tokens
    place = scheduler.running.index(victim)
    del scheduler.running[place]
    if was_granted or (place < index and scheduler.config.behaviour.victim_index):
        index -= 1
    if was_granted:
        this_pass.undo(victim)
    this_pass.victims.append(Victim(victim, victim.num_computed_tokens))
    preempt(scheduler, victim)
    return index


def preempt(scheduler: Scheduler, request: Request) -> None:
    """Send a request that is off the running list to the front of `waiting`, with nothing computed.

    Its output stays: on its return prompt and output are computed again. A token in flight may
    still arrive, and finish the request where it waits.
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
    stale_output.at_eviction(scheduler, request)
    scheduler.queues.add_evicted(request)
    if scheduler.return_path is not None:
        scheduler.return_path.event(request, "PREEMPTED", scheduler.now_ns)
