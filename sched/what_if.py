"""What the admission loop would have done, had a preemption not closed it.

The very loop is run on a stand-in for the scheduler whose collections and pool can be spent
without being spent. Requests are copied as the loop comes to them, so nothing real is touched.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING

from schedbench.errors import EngineEndsError
from schedbench.sched.admission_loop import admit_waiting

if TYPE_CHECKING:
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


def admissions_that_fit(scheduler: Scheduler, this_pass: SchedulePass) -> int:
    """Count the requests that the admission loop would admit after this pass's running loop.

    This pass's own victims stand in their places in the queue, where they may end the loop or be
    admitted again; they are not counted. Nothing of the scheduler or the pass changes.
    """
    victims = {victim.request.request_id for victim in this_pass.victims}
    other = copy.copy(scheduler)
    other.kv_cache = scheduler.kv_cache.what_if()
    other.encoder_cache = scheduler.encoder_cache.what_if()
    other.running = scheduler.running.copy()
    other.request_errors = set()
    other.return_path = None
    if scheduler.hooks:
        other.policy = copy.deepcopy(scheduler.policy)
    other.queues = scheduler.queues.what_if(other.waiting_key())
    if scheduler.transfers is not None:
        other.transfers = scheduler.transfers.what_if()
    trial = this_pass.what_if()
    with suppress(EngineEndsError):  # it was not closed to end there
        admit_waiting(other, trial)
    admitted = (*trial.new, *trial.resumed)
    return sum(request.request_id not in victims for request in admitted)
