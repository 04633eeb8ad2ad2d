"""Watches one request: where it stood, under which verdict it waited, what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.errors import UsageError
from schedbench.results.explain.timeline import Event, Step, Timeline
from schedbench.runner.explain.naming import name_of
from schedbench.runner.explain.queue_place import collection_of, requests_ahead
from schedbench.runner.waits import IN_FLIGHT
from schedbench.runner.watch import WatchedEnoughError, Watcher
from schedbench.sched.request import RequestStatus

if TYPE_CHECKING:
    from schedbench.runner.replay import Replay
    from schedbench.runner.watch import Loop, Watched
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.verdicts import Verdict

SHOWN_AHEAD = 3


class RequestWatcher(Watcher):
    """Collects the steps of the request in one row of the trace. Times in ns."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.request: Request | None = None
        self.steps: list[Step] = []
        self._passes = 0  # scheduled so far
        self._folded = 0
        self._open: Step | None = None  # a wait or a stretch of work that goes on
        self._decoding: dict[int, Step] = {}  # by pass: decodes that are not folded in yet
        self._verdict: str | None = None  # what holds it in the queues now
        self._since_ns = 0
        self._skipped: Verdict | None = None  # stepped over in this pass's running loop

    def arrives(self, replay: Replay, request: Request) -> None:
        if self.request is not None and request.request_id == self.request.request_id:
            self._input_comes(replay, request)
            return
        if request.tag is None or request.tag.row != self.row:
            return
        self.request = request
        ahead = requests_ahead(replay.scheduler, request)
        in_flight_ns = replay.now_ns - request.tag.arrival_ns
        step = self._note(
            Event.ARRIVED,
            replay,
            num_ahead=len(ahead),
            ahead=[name_of(each) for each in ahead[:SHOWN_AHEAD]],
            running=len(replay.scheduler.running),
        )
        step.begin_ns = request.tag.arrival_ns
        if in_flight_ns:
            step.waits(IN_FLIGHT, 0, in_flight_ns)

    def begins(self, replay: Replay) -> None:
        if self._has_seen_all():
            raise WatchedEnoughError
        self._skipped = None
        self._count_time(replay.now_ns)

    def _has_seen_all(self) -> bool:
        """Whether the request has ended, and nothing more of it can come."""
        request = self.request
        if request is None or self._decoding or self.steps[-1].event is not Event.ENDED:
            return False
        return request.tag is not None and request.tag.chunks is None  # else its session goes on

    def decides(
        self, replay: Replay, loop: Loop, this_pass: SchedulePass, request: Request, found: Verdict
    ) -> None:
        if request is self.request and loop == "running":
            self._skipped = found

    def evicts(self, replay: Replay, victim: Request, tokens: int, by: Request | None) -> None:
        if victim is not self.request:
            return
        who = "itself" if by is victim else name_of(by) if by is not None else "a cache reset"
        self._close()
        step = self._note(Event.EVICTED, replay, by=who, tokens=tokens)
        step.first_pass = step.last_pass = self._passes if by is not None else None

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        index = self._passes
        self._passes += 1
        request = self.request
        if request is None or request.is_finished:
            return
        if request.request_id in output.num_scheduled_tokens:
            self._works(replay, output, index)
        elif request.status is RequestStatus.RUNNING:
            self._is_held(replay, output, index)
        else:
            self._waits(replay, output, index)

    def folded(self, replay: Replay, output: SchedulerOutput, outputs: EngineCoreOutputs) -> None:
        index = self._folded
        self._folded += 1
        request = self.request
        if request is None:
            return
        step = self._decoding.pop(index, None)
        if request in outputs.emitted:
            tokens = outputs.num_new_tokens.get(request.request_id, 1)
            self._emits(replay, index, tokens, step)
        if request in outputs.segments_done:
            self._close()
            self._note(Event.SEGMENT_DONE, replay).lasts(index, replay.now_ns)
        for each, reason in outputs.finished:
            if each is request:
                self._ends(replay, reason)
                self.steps[-1].lasts(index, replay.now_ns)

    def ended(self, replay: Replay, request: Request) -> None:
        if request is self.request and self.steps[-1].event is not Event.ENDED:
            self._ends(replay, "ended from outside")

    def _input_comes(self, replay: Replay, request: Request) -> None:
        """More of a session's input, or its end, which ends a session that waits for more."""
        if request.resumable:
            self._note(Event.NEXT_INPUT, replay, tokens=request.num_prompt_tokens)
        elif self.steps[-1].event is Event.ENDED:
            self.steps[-1].facts["reason"] = "its session was closed"
        else:
            self._note(Event.INPUT_ENDS, replay)

    def _works(self, replay: Replay, output: SchedulerOutput, index: int) -> None:
        """It has tokens in this pass: as an admission, a chunk of its prompt, or a decode."""
        request = self.request
        assert request is not None
        tokens = output.num_scheduled_tokens[request.request_id]
        admitted = request in output.scheduled_new_reqs
        if admitted or request in output.scheduled_resumed_reqs:
            self._close()
            event = Event.ADMITTED if admitted else Event.RESUMED
            self._open = self._note(
                event,
                replay,
                known=request.num_tokens,
                computed=request.num_computed_tokens - tokens,
                cached=output.lookups.get(request.request_id, 0),
                tokens=tokens,
            )
            self._open.lasts(index, replay.now_ns)
            return
        is_chunk = any(grant.request is request for grant in output.prefills)
        step = self._going_on(Event.COMPUTED if is_chunk else Event.DECODED, replay)
        step.lasts(index, replay.now_ns)
        step.counts("passes")
        step.counts("tokens", tokens)
        self._decoding[index] = step
        drafts = output.scheduled_spec_decode_tokens.get(request.request_id)
        if drafts:
            step.counts("drafts", drafts)

    def _is_held(self, replay: Replay, output: SchedulerOutput, index: int) -> None:
        """It runs, and got nothing: the loop stepped over it, or never came to it."""
        verdict = self._skipped or output.running_stop
        step = self._going_on(Event.HELD, replay, verdict=verdict.label)
        step.lasts(index, replay.now_ns)
        step.counts("passes")

    def _waits(self, replay: Replay, output: SchedulerOutput, index: int) -> None:
        request, scheduler = self.request, replay.scheduler
        assert request is not None
        verdict = dict(output.set_aside).get(request, output.admission_stop).label
        place = (Event.WAITED, collection_of(scheduler, request), request.status.name)
        step = self._open
        if step is None or place != (step.event, step.collection, step.status):
            self._close()
            step = self._open = self._note(Event.WAITED, replay, behind={})
            step.facts["ahead"] = step.facts["ahead_at_last"] = len(
                requests_ahead(scheduler, request)
            )
        elif _moved(output):
            step.facts["ahead_at_last"] = len(requests_ahead(scheduler, request))
        if (head := scheduler.queues.head()) is not request:
            behind, name = step.facts["behind"], name_of(head)
            behind[name] = behind.get(name, 0) + 1
        step.lasts(index, replay.now_ns)
        step.waits(verdict, 1, 0)
        self._verdict, self._since_ns = verdict, replay.now_ns

    def _emits(self, replay: Replay, index: int, tokens: int, step: Step | None) -> None:
        """`step`: the stretch of work that the pass belongs to; passes are folded in later."""
        if not any(each.event is Event.FIRST_TOKEN for each in self.steps):
            self._note(Event.FIRST_TOKEN, replay).lasts(index, replay.now_ns)
        elif step is not None:
            step.counts("came", tokens)
            step.end_ns = replay.now_ns

    def _ends(self, replay: Replay, reason: str) -> None:
        self._count_time(replay.now_ns)
        self._close()
        self._note(Event.ENDED, replay, reason=reason)

    def _going_on(self, event: Event, replay: Replay, **facts: str) -> Step:
        """The stretch of this kind that goes on, or a new one."""
        step = self._open
        if step is not None and step.event is event and facts.items() <= step.facts.items():
            return step
        self._close()
        self._open = self._note(event, replay, **facts)
        return self._open

    def _note(self, event: Event, replay: Replay, **facts: object) -> Step:
        request, now_ns = self.request, replay.now_ns
        assert request is not None
        collection = collection_of(replay.scheduler, request)
        step = Step(event, collection, request.status.name, now_ns, now_ns, facts=dict(facts))
        self.steps.append(step)
        return step

    def _count_time(self, now_ns: int) -> None:
        step = self._open
        if step is not None and step.event is Event.WAITED and self._verdict is not None:
            step.waits(self._verdict, 0, now_ns - self._since_ns)
            step.end_ns = now_ns
            self._since_ns = now_ns

    def _close(self) -> None:
        self._open = self._verdict = None


def timeline_of(watcher: RequestWatcher, watched: Watched) -> Timeline:
    """What was seen of a request, with its row of the requests table."""
    rows = watched.rows.requests.table()
    place = rows.column("row").to_pylist()
    if watcher.request is None or watcher.row not in place:
        raise UsageError(
            f"row {watcher.row} had not arrived when the run ended; nothing is known of it"
        )
    facts = rows.slice(place.index(watcher.row), 1).to_pylist()[0]
    return Timeline(name_of(watcher.request), tuple(watcher.steps), facts)


def _moved(output: SchedulerOutput) -> bool:
    """Whether a pass took anybody out of the queues, or put anybody back."""
    return bool(
        output.scheduled_new_reqs
        or output.scheduled_resumed_reqs
        or output.victims
        or output.set_aside
    )
