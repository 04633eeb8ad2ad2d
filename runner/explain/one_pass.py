"""Watches one pass: the state before, each decision in order, the state after."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from schedbench.errors import UsageError
from schedbench.results.explain.one_pass import Decision, OnePass, Standing, State
from schedbench.runner.explain.naming import name_of
from schedbench.runner.watch import WatchedEnoughError, Watcher
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.runner.replay import Replay
    from schedbench.runner.watch import Loop, Watched
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler

MOST_KEPT = 256  # requests of a queue whose standing is noted


class PassWatcher(Watcher):
    """Looks on in pass `index` only, and ends the replay when that pass is folded in."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.before: State | None = None
        self.after: State | None = None
        self.decisions: list[Decision] = []
        self.came: dict[str, Any] | None = None
        self._scheduled = 0
        self._folded = 0

    @property
    def _looks(self) -> bool:
        return self._scheduled == self.index

    def begins(self, replay: Replay) -> None:
        if self._folded > self.index:
            raise WatchedEnoughError
        if self._looks:
            self.before = state_of(replay.scheduler)

    def decides(
        self, replay: Replay, loop: Loop, this_pass: SchedulePass, request: Request, found: Verdict
    ) -> None:
        if self._looks:
            cached = this_pass.lookups.get(request.request_id)
            self._note(
                replay,
                (loop, found),
                request,
                tokens=this_pass.num_scheduled_tokens.get(request.request_id, 0),
                budget_left=this_pass.token_budget,
                facts={} if cached is None else {"cached": cached},
            )

    def evicts(self, replay: Replay, victim: Request, tokens: int, by: Request | None) -> None:
        if self._looks and by is not None:
            facts = {"by": name_of(by), "lost": tokens}
            self._note(replay, ("running", Verdict.PREEMPTED), victim, facts=facts)

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        if self._looks:
            self.after = state_of(replay.scheduler)
        self._scheduled += 1

    def folded(self, replay: Replay, output: SchedulerOutput, outputs: EngineCoreOutputs) -> None:
        if self._folded == self.index:
            self.came = {
                "end_ns": replay.now_ns,
                "emitted": len(outputs.emitted),
                "finished": [[name_of(each), reason] for each, reason in outputs.finished],
                "sessions_awaiting_input": [name_of(each) for each in outputs.segments_done],
            }
        self._folded += 1

    def _note(
        self,
        replay: Replay,
        came: tuple[Loop, Verdict],
        request: Request,
        *,
        tokens: int = 0,
        budget_left: int | None = None,
        facts: dict[str, Any],
    ) -> None:
        loop, found = came
        self.decisions.append(
            Decision(
                loop,
                name_of(request),
                found.label,
                found.kind.name,
                tokens,
                request.num_computed_tokens,
                request.num_tokens,
                budget_left,
                replay.scheduler.kv_cache.pool.num_free,
                facts,
            )
        )


def state_of(scheduler: Scheduler) -> State:
    """The collections and the pool as they are now."""
    pool = scheduler.kv_cache.pool
    waiting, skipped = scheduler.queues.split()
    return State(
        running=_standing(scheduler.running),
        skipped_waiting=_standing(skipped),
        waiting=_standing(waiting),
        counts={
            "running": len(scheduler.running),
            "skipped_waiting": len(skipped),
            "waiting": len(waiting),
        },
        kv_blocks_used=scheduler.config.usable_blocks - pool.num_free,
        kv_blocks_free=pool.num_free,
        seats_held_by_sessions=scheduler.num_waiting_for_streaming_input,
    )


def _standing(requests: Iterable[Request]) -> tuple[Standing, ...]:
    return tuple(
        Standing(
            name_of(each),
            each.status.name,
            each.num_computed_tokens,
            each.num_tokens,
            len(each.block_ids),
            each.priority,
        )
        for each in islice(requests, MOST_KEPT)
    )


def one_pass_of(watcher: PassWatcher, watched: Watched) -> OnePass:
    """What was seen of a pass, with its row of the pass log."""
    rows = watched.rows.passes.table()
    if watcher.before is None or watcher.after is None or watcher.index >= rows.num_rows:
        raise UsageError(
            f"--pass {watcher.index}: the run has {rows.num_rows} passes, from 0 to "
            f"{rows.num_rows - 1}"
        )
    config = watched.replay.scheduler.config
    limits = {
        "token_budget": config.token_budget,
        "max_num_seqs": config.max_num_seqs,
        "kv_blocks": config.usable_blocks,
        "watermark_blocks": config.watermark_blocks,
    }
    row = rows.slice(watcher.index, 1).to_pylist()[0]
    decisions = tuple(watcher.decisions)
    came = watcher.came or {}
    return OnePass(watcher.index, watcher.before, decisions, watcher.after, row, limits, came)
