"""A replay that ends in a pause: nothing resumes the engine, and requests are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.errors import StallError
from schedbench.results.units import duration
from schedbench.sched.pause import PauseState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.events import Event
    from schedbench.sched.scheduler import Scheduler

_HELD = {
    PauseState.PAUSED_ALL: ("all", "nothing runs"),
    PauseState.PAUSED_NEW: ("new", "nobody is admitted"),
}


def is_held_by_pause(scheduler: Scheduler) -> bool:
    """Whether a pause alone keeps everybody from going on."""
    state = scheduler.pause_state
    return state is PauseState.PAUSED_ALL or (
        state is PauseState.PAUSED_NEW and not scheduler.running
    )


def paused_message(scheduler: Scheduler, since_ns: int | None = None) -> str:
    """Say what the pause holds back, since when (ns, where it is known), and what ends it."""
    state, effect = _HELD[scheduler.pause_state]
    since = "" if since_ns is None else f" since {duration(since_ns)}"
    return (
        f"stalled: the engine is paused (state {state}: {effect}){since}, and no event resumes it; "
        f"requests left: {len(scheduler.requests):,}. Put a later line with the op resume into the "
        "file of --events"
    )


def dated(error: StallError, scheduler: Scheduler, events: Sequence[Event]) -> StallError:
    """The same stall; of one in a pause, with the time of the event that began it."""
    if not is_held_by_pause(scheduler):
        return error
    begun: Event | None = None
    for event in events:
        if event.op == "resume":
            begun = None
        elif event.op == "pause" and (begun is None or begun.state != event.state):
            begun = event
    return StallError(paused_message(scheduler, begun.at_ns if begun else None))
