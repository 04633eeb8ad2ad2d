"""Where a request stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.request import RequestStatus
from schedbench.sched.request_queue import keyed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

NOWHERE = "-"


def collection_of(scheduler: Scheduler, request: Request) -> str:
    """The collection that holds a request between two calls of the scheduler."""
    if request.request_id not in scheduler.requests or request.is_finished:
        return NOWHERE
    if request.status is RequestStatus.RUNNING:
        return "running"
    if request.is_blocked or request in scheduler.queues.skipped_waiting:
        return "skipped_waiting"
    return "waiting"


def requests_ahead(scheduler: Scheduler, request: Request) -> list[Request]:
    """Who would be considered before a request in the queues, in that order."""
    queues = scheduler.queues
    if scheduler.config.policy == "fcfs" and "waiting_key" not in scheduler.hooks:
        ahead = []
        for each in queues:  # first all of `skipped_waiting`
            if each is request:
                break
            ahead.append(each)
        return ahead
    order = _order(scheduler)
    mine = order(request)
    return sorted((each for each in queues if order(each) < mine), key=order)


def _order(scheduler: Scheduler) -> Callable[[Request], Any]:
    key = scheduler.waiting_key()
    if key is not None:
        return lambda request: keyed(request, key)
    return lambda request: (request.priority, request.arrival_time, request.request_id)
