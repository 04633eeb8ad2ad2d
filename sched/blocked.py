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
    if not request.is_blocked:
        return stale_output_awaited(request)
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
                scheduler.request_errors.add(request.request_id)
            if not request.grammar.ready:
                return Verdict.AWAITING_GRAMMAR
    came_back = request.status is RequestStatus.WAITING_FOR_REMOTE_KVS and request.num_preemptions
    request.status = RequestStatus.PREEMPTED if came_back else RequestStatus.WAITING
    return stale_output_awaited(request)


def stale_output_awaited(request: Request) -> Verdict | None:
    """Tokens to be delivered late come first, or what is resumed would sample them again."""
    if request.num_stale_output_tokens and not request.drops_stale_output:
        return Verdict.STALE_OUTPUT_IN_FLIGHT
    return None
