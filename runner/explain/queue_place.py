"""Where a request stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedbench.sched.request import RequestStatus
from schedbench.sched.request_queue import keyed

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

NOWHERE = "-"


def collection_of(scheduler: Scheduler, request: Request) -> str:
    """The collection that holds a request between two calls of the scheduler."""
    if request.request_id not in scheduler.requests or request.is_finished:
        return NOWHERE
    if request.status is RequestStatus.RUNNING:
        return "running"
    _, skipped = scheduler.queues.split()
    if request.is_blocked or request in skipped:
        return "skipped_waiting"
    return "waiting"


def requests_ahead(scheduler: Scheduler, request: Request) -> list[Request]:
    """Who would be considered before a request in the queues, in that order."""
    queues = scheduler.queues
    if scheduler.config.policy == "fcfs" and "waiting_key" not in scheduler.hooks:
        ahead = []
        for each in queues:  # in the order in which they are tried
            if each is request:
                break
            ahead.append(each)
        return ahead
    order = _order(scheduler)

    def place(each: Request) -> tuple[bool, Any]:
        return not queues.goes_first(each), order(each)

    return sorted((each for each in queues if place(each) < place(request)), key=place)


def _order(scheduler: Scheduler) -> Callable[[Request], Any]:
    key = scheduler.waiting_key()
    if key is not None:
        return lambda request: keyed(request, key)
    return lambda request: (request.priority, request.arrival_time, request.request_id)
