"""Watches who waits and what would hold it first, whom a less urgent one keeps out, who idles."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from schedbench.results.arrays import ints, total
from schedbench.results.explain.holds import holds_of
from schedbench.results.explain.waiting import (
    NS,
    WAIT,
    Inversion,
    Skips,
    Waiting,
    groups_of,
    held_by,
    jain_indices,
    longest_waits,
    total_waits,
)
from schedbench.runner.explain.candidates import OUTSIDE
from schedbench.runner.explain.naming import name_of
from schedbench.runner.explain.queue_clock import QueueClock
from schedbench.runner.waits import IN_FLIGHT
from schedbench.runner.watch import Watcher
from schedbench.sched.request import RequestStatus
from schedbench.sched.verdicts import Kind, Verdict

if TYPE_CHECKING:
    from schedbench.results.explain.holds import Holds, Pair
    from schedbench.runner.explain.rerun import Rerun
    from schedbench.runner.replay import Replay
    from schedbench.runner.watch import Loop, Watched
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.workloads.trace import Trace

TOP_INVERSIONS = 5


class WaitingWatcher(Watcher):
    """Collects what the tables of a run do not tell about waiting.

    Where no request has a priority or an adapter, and no answer is a prefix of a later prompt,
    nothing is to be seen in passes of decodes alone.
    """

    def __init__(self, rerun: Rerun) -> None:
        trace, config = rerun.trace, rerun.config
        self.needs_every_pass = (
            trace.has("priority") or trace.has("output_hash_ids") or config.max_loras is not None
        )
        self.clock: QueueClock | None = None
        self.inversions: dict[int, Inversion] = {}
        self.held_seats: Counter[str] = Counter()
        self.skips: dict[int, Skips] = defaultdict(Skips)
        self.names: dict[int, str] = {}
        self._passes = 0
        self._skipped: Counter[str] = Counter()  # in this pass
        self._looks = False  # the plain loops make this pass
        self._priorities: set[int] = set()
        self._urgent: Request | None = None  # the most urgent one in the queues
        self._least: Request | None = None  # the least urgent one running
        self._now: Inversion | None = None
        self._since_ns = 0

    def opens(self, replay: Replay, trace: Trace) -> None:
        self.clock = QueueClock(replay.scheduler, trace)
        replay.recorder.waits = self.clock

    def arrives(self, replay: Replay, request: Request) -> None:
        assert self.clock is not None
        self.clock.arrives(request)
        if request.tag is not None:
            self.names[request.tag.row] = name_of(request)
            self._priorities.add(request.priority)
            if self._urgent is not None and request.priority < self._urgent.priority:
                self._urgent = request

    def begins(self, replay: Replay) -> None:
        self._looks = True
        self._skipped.clear()
        if self._now is not None:
            self._now.ns += replay.now_ns - self._since_ns

    def decides(
        self, replay: Replay, loop: Loop, this_pass: SchedulePass, request: Request, found: Verdict
    ) -> None:
        if loop == "running" and found.kind is Kind.SKIP:
            self._skipped[found.label] += 1

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        assert self.clock is not None
        self.clock.decided(output)
        self._count_idle(replay, output)
        for lora in {each.lora_id for each, why in output.set_aside if why is _NO_ADAPTER}:
            self._skip(self.skips[lora])
        self._now = None
        if len(self._priorities) > 1:
            self._look_for_inversion(replay, output)
        self._since_ns = replay.now_ns
        self._passes += 1

    def _count_idle(self, replay: Replay, output: SchedulerOutput) -> None:
        """Count the running requests without a token by verdict; not of a pass of the short way."""
        running, busy = len(replay.scheduler.running), len(output.num_scheduled_tokens)
        looks, self._looks = self._looks, False
        if busy == running or not looks:
            return
        self.held_seats.update(self._skipped)
        never_reached = running - busy - self._skipped.total()
        if never_reached > 0:
            self.held_seats[output.running_stop.label] += never_reached

    def _skip(self, skips: Skips) -> None:
        skips.streak = skips.streak + 1 if skips.last_pass == self._passes - 1 else 1
        skips.longest_streak = max(skips.longest_streak, skips.streak)
        skips.passes += 1
        skips.last_pass = self._passes

    def _look_for_inversion(self, replay: Replay, output: SchedulerOutput) -> None:
        urgent, least = self._extremes(replay, output)
        if urgent is None or least is None or urgent.priority >= least.priority:
            return
        row = urgent.tag.row
        if row not in self.inversions:
            self.inversions[row] = Inversion(
                row,
                name_of(urgent),
                urgent.priority,
                name_of(least),
                least.priority,
                self._passes,
            )
        self._now = self.inversions[row]
        self._now.passes += 1
        self._now.verdicts[self._facts(output, urgent)] += 1

    def _facts(self, output: SchedulerOutput, urgent: Request) -> Pair:
        """What ended admission for a request or set it aside, and what would hold it first."""
        assert self.clock is not None
        own = dict(output.set_aside).get(urgent)
        if own is not None:
            return own.label, own.label
        return output.admission_stop.label, self.clock.hold_after(output.admission_stop, urgent)

    def _extremes(
        self, replay: Replay, output: SchedulerOutput
    ) -> tuple[Request | None, Request | None]:
        """The most urgent one that waits its turn, and the least urgent one running.

        Looked for anew only if a request moved. What waits for something outside is passed over.
        """
        scheduler = replay.scheduler
        moved = bool(output.scheduled_new_reqs or output.scheduled_resumed_reqs or output.victims)
        if moved or output.set_aside or self._urgent is None or not _is_queued(self._urgent):
            aside = {request for request, why in output.set_aside if why.label in OUTSIDE}
            queued = (each for each in scheduler.queues if each not in aside)
            self._urgent = min(queued, key=_urgency, default=None)
        if moved or self._least is None or self._least.is_finished:
            self._least = max(scheduler.running, key=_urgency, default=None)
        return self._urgent, self._least


_NO_ADAPTER = Verdict.LORA_SLOTS_FULL


def _urgency(request: Request) -> tuple[int, int]:
    return (request.priority, request.arrival_time)


def _is_queued(request: Request) -> bool:
    return request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)


def waiting_of(watcher: WaitingWatcher, watched: Watched) -> Waiting:
    """What was seen, and what the tables of the run say."""
    passes, requests = watched.rows.passes.table(), watched.rows.requests.table()
    inversions = sorted(watcher.inversions.values(), key=lambda each: (-each.passes, each.row))
    running = ints(passes, "running")
    idle = total(running - ints(passes, "requests_scheduled")) - watcher.held_seats.total()
    if idle:  # of the short way, where nothing else keeps a running request from a token
        watcher.held_seats[Verdict.OUTPUT_CAP_IN_FLIGHT.label] += idle
    holds = _holds(watcher, watched)
    return Waiting(
        held=held_by(passes, requests),
        holds=holds,
        names=watcher.names,
        longest=tuple(longest_waits(requests, watcher.names, holds)),
        groups=tuple(groups_of(requests, holds)),
        jain=jain_indices(requests),
        requests=requests.num_rows,
        waited_ns=total(total_waits(requests)),
        policy=watched.replay.scheduler.config.policy,
        inversions=tuple(inversions),
        held_seats=watcher.held_seats,
        running_passes=total(running),
        busy_passes=int((running > 0).sum()),
        skips=dict(watcher.skips),
    )


def _holds(watcher: WaitingWatcher, watched: Watched) -> Holds:
    requests, clock, config = (
        watched.rows.requests.table(),
        watcher.clock,
        watched.replay.scheduler.config,
    )
    assert clock is not None
    in_flight = ints(requests, f"{WAIT}{IN_FLIGHT}{NS}")
    return holds_of(
        clock.stays,
        clock.stops,
        watched.rows.passes.table(),
        dict(zip(ints(requests, "row").tolist(), in_flight.tolist(), strict=True)),
        watched.replay.now_ns,
        reserves_whole=config.scheduler_reserve_full_isl,
        max_loras=config.max_loras,
    )
