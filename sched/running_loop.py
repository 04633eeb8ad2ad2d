"""First loop: requests already running, in their order, for as long as there is budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched import token_demand
from schedbench.sched.preemption import evict_one
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def schedule_running(scheduler: Scheduler, this_pass: SchedulePass) -> Verdict:
    """Grant tokens down the running list; says why it ended.

    A request that wants nothing is stepped over. One that finds the pool short evicts others
    until it fits or is evicted itself, which ends the loop.
    """
    running, config, kv_cache = scheduler.running, scheduler.config, scheduler.kv_cache
    index = 0
    while index < len(running):
        if this_pass.token_budget == 0:
            this_pass.cut_by_budget = True
            return Verdict.BUDGET_SPENT
        request = running[index]
        if this_pass.defer_prefills and request.is_prefill_chunk:
            index += 1  # PREFILL_DEFERRED
            continue
        num_new_tokens = token_demand.of_running(request, this_pass.token_budget, config)
        if num_new_tokens == 0:
            index += 1  # NOTHING_TO_DO
            continue
        while (new_blocks := kv_cache.allocate_slots(request, num_new_tokens)) is None:
            victim, index = evict_one(scheduler, this_pass, index)
            if victim is request:
                return Verdict.PREEMPTED_SELF
        this_pass.grant_running(request, num_new_tokens, new_blocks)
        index += 1
    return Verdict.LIST_DONE
