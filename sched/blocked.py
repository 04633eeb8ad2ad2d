"""May a blocked request come back: grammar, remote KV, next input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.kv_connector import load_is_done
from schedbench.sched.request import RequestStatus
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler


def what_it_awaits(scheduler: Scheduler, request: Request) -> Verdict | None:
    """None if nothing blocks the request any more; its status is then that of a waiting one."""
    match request.status:
        case RequestStatus.WAITING_FOR_STREAMING_REQ:
            return Verdict.AWAITING_INPUT
        case RequestStatus.WAITING_FOR_REMOTE_KVS:
            assert scheduler.transfers is not None
            if not load_is_done(scheduler, scheduler.transfers, request):
                return Verdict.AWAITING_REMOTE_KV
        case RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            assert request.grammar is not None
            if request.grammar.failed:
                scheduler.grammar_errors.add(request.request_id)
            if not request.grammar.ready:
                return Verdict.AWAITING_GRAMMAR
    came_back = request.status is RequestStatus.WAITING_FOR_REMOTE_KVS and request.num_preemptions
    request.status = RequestStatus.PREEMPTED if came_back else RequestStatus.WAITING
    return None
