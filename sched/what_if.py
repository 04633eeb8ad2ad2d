"""What the admission loop would have done, had a preemption not closed it.

The very loop is run on a stand-in for the scheduler whose collections and pool can be spent
without being spent. Requests are copied as the loop comes to them, so nothing real is touched.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, cast

from schedbench.sched.admission_loop import admit_waiting
from schedbench.sched.schedule_pass import SchedulePass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import RequestQueue
    from schedbench.sched.scheduler import Scheduler


def admissions_that_fit(scheduler: Scheduler, this_pass: SchedulePass) -> int:
    """Count the waiting requests that would have been admitted after this pass's running loop.

    This pass's own victims are passed over. Nothing of the scheduler or the pass changes.
    """
    victims = {victim.request for victim in this_pass.victims}
    other = copy.copy(scheduler)
    other.kv_cache = scheduler.kv_cache.what_if()
    other.running = scheduler.running.copy()
    other.waiting = _copied(scheduler.waiting, victims)
    other.skipped_waiting = _copied(scheduler.skipped_waiting, victims)
    trial = SchedulePass(this_pass.token_budget, defer_prefills=this_pass.defer_prefills)
    trial.loras = this_pass.loras.copy()
    admit_waiting(other, trial)
    return len(trial.new) + len(trial.resumed)


def _copied(queue: RequestQueue, passed_over: set[Request]) -> RequestQueue:
    return cast("RequestQueue", _CopiedQueue(queue, passed_over))  # all that admissions use of one


class _CopiedQueue:
    """A queue's requests, each copied when it comes to the head."""

    def __init__(self, queue: RequestQueue, passed_over: set[Request]) -> None:
        self._rest: Iterator[Request] = (r for r in queue if r not in passed_over)
        self._left = sum(1 for r in queue if r not in passed_over)
        self._head: Request | None = None

    def peek_request(self) -> Request:
        if self._head is None:
            self._head = copy.copy(next(self._rest))
            self._head.block_ids = self._head.block_ids.copy()
        return self._head

    def pop_request(self) -> Request:
        request = self.peek_request()
        self._head = None
        self._left -= 1
        return request

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        """Requests set aside are not looked at again in this pass."""

    def __len__(self) -> int:
        return self._left
