"""Watches evictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.results.explain.preemptions import Eviction
from schedbench.runner.explain.naming import name_of
from schedbench.runner.watch import Watcher

if TYPE_CHECKING:
    from schedbench.runner.replay import Replay
    from schedbench.sched.request import Request

CACHE_RESET, ITSELF, PRIORITY, KV_FULL = "cache_reset", "itself", "priority", "kv_full"


class PreemptionWatcher(Watcher):
    """Notes every eviction, by whom and why."""

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []
        self._passes = 0

    def begins(self, replay: Replay) -> None:
        self._passes += 1

    def evicts(self, replay: Replay, victim: Request, tokens: int, by: Request | None) -> None:
        self.evictions.append(
            Eviction(
                index=None if by is None else self._passes - 1,
                at_ns=replay.now_ns,
                row=victim.tag.row,
                name=name_of(victim),
                by=None if by is None else name_of(by),
                reason=reason_of(victim, by),
                tokens=tokens,
                running=len(replay.scheduler.running) + 1,
            )
        )


def reason_of(victim: Request, by: Request | None) -> str:
    """`kv_full` unless there is more to it."""
    if by is None:
        return CACHE_RESET
    if by is victim:
        return ITSELF
    return PRIORITY if victim.priority > by.priority else KV_FULL
