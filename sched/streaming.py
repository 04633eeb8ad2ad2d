"""Streaming input: a session's request is continued by further `add_request` calls of its id.

    known       |------ prompt ------|---- output ----| last sampled |
    computed    |-------------------------------------|
    next input  |------ prompt, longer by the output -|---- new input ----|

The last sampled token was never computed and is dropped. 0.26.0 keeps what is computed, even if it
is nothing because the session ended its turn while preempted. From 0.31.0 on it goes back to what
no pass in flight can take back; 0.33.0 keeps all output but that token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from schedbench.sched import stale_output
from schedbench.sched.endings import Ending, ends
from schedbench.sched.request import RequestStatus, StreamingUpdate

if TYPE_CHECKING:
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler


def start_session(scheduler: Scheduler, request: Request) -> None:
    request.streaming_queue = deque()
    scheduler.has_sessions = True


def update_of(request: Request) -> StreamingUpdate | None:
    """What a further request of a session's id says; None if it ends the session."""
    if not request.resumable:
        return None
    return StreamingUpdate(
        request.num_prompt_tokens,
        request.max_tokens,
        request.arrival_time,
        request.eos_after,
        request.min_tokens,
        request.encoder_inputs,
        request.identity,
    )


def continue_session(
    scheduler: Scheduler, session: Request, update: StreamingUpdate | None
) -> None:
    """Take in a session's next input, or its end (None)."""
    if session.status is not RequestStatus.WAITING_FOR_STREAMING_REQ:
        assert session.streaming_queue is not None, f"duplicate request id {session.request_id}"
        session.streaming_queue.append(update)
    elif update is not None:
        apply_update(scheduler, session, update)
    else:
        scheduler.finish_requests([session.request_id], RequestStatus.FINISHED_ABORTED)


def apply_update(scheduler: Scheduler, session: Request, update: StreamingUpdate) -> None:
    """Turn the output that stays into prompt and append the new input."""
    behaviour = scheduler.config.behaviour
    if behaviour.streaming_frontier:
        kept = session.num_tokens - 1
        if kept < session.num_computed_tokens:
            raise ends(Ending.INPUT_BEHIND, scheduler.config)
    else:
        kept = min(session.num_computed_tokens, session.num_tokens)
    session.identity.next_input(session.num_tokens, kept, update, redo=behaviour.turn_rehash)
    session.encoder_inputs += tuple(
        replace(item, offset=item.offset + kept) for item in update.encoder_inputs
    )
    session.num_prompt_tokens += max(kept - session.num_prompt_tokens, 0) + update.num_prompt_tokens
    session.num_tokens = session.output_start = kept + update.num_prompt_tokens
    session.arrival_time = update.arrival_time
    session.eos_after = update.eos_after
    session.min_tokens = update.min_tokens
    if behaviour.streaming_max_tokens:
        session.max_tokens = update.max_tokens
    if session.status is RequestStatus.WAITING_FOR_STREAMING_REQ:
        scheduler.num_waiting_for_streaming_input -= 1
    session.status = RequestStatus.WAITING
    if scheduler.return_path is not None:
        scheduler.return_path.event(session, "QUEUED", scheduler.now_ns)


def segment_is_done(scheduler: Scheduler, session: Request) -> bool:
    """After a stop: True if the session goes on, with its next input or waiting for it.

    The caller queues it then.
    """
    if not session.resumable:
        return False
    if scheduler.config.behaviour.turn_rollback:
        session.num_computed_tokens -= session.num_output_placeholders
        if session.num_computed_tokens < 0:
            raise ends(Ending.NEGATIVE_COMPUTED, scheduler.config)
        session.num_spec_tokens = 0
        stale_output.mark(scheduler, session, drops=True)
    if session.streaming_queue:
        update = session.streaming_queue.popleft()
        if update is None:
            return False
        apply_update(scheduler, session, update)
    else:
        session.status = RequestStatus.WAITING_FOR_STREAMING_REQ
        scheduler.num_waiting_for_streaming_input += 1
    return True
