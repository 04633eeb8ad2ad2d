"""The replay loop: arrivals, schedule, execute, update, record, on a clock of integer ns.

With one pass in flight the oldest is folded in before the next is scheduled; with more, as many
are scheduled first. A pass is folded in at its end, which is when the one before it ended plus its
own duration, for the device runs one at a time.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from schedbench.errors import StallError, TraceError
from schedbench.runner.stall import ProgressWatch, stall_message
from schedbench.sched import spec_decode
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.request import RequestStatus
from schedbench.sched.scheduler import PauseState
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.runner.api import PassResult, Runner
    from schedbench.runner.arrivals import Arrivals
    from schedbench.runner.events import Event
    from schedbench.runner.record import FirstHalf, Recorder, RowSink
    from schedbench.runner.trace_model import TraceModel
    from schedbench.runner.world import World
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler


class Progress(Protocol):
    """Told now and then how far the replay is."""

    def __call__(self, replay: Replay) -> None: ...


@dataclass(slots=True)
class InFlight:
    """A pass that is scheduled and not folded in yet."""

    output: SchedulerOutput
    first_half: FirstHalf
    result: PassResult
    sampled: dict[str, int]
    scheduler_ns: int


@dataclass
class Replay:
    """One trace through one scheduler. `run` may be called once.

    Raises:
        StallError: no request can ever be scheduled again.
    """

    scheduler: Scheduler
    arrivals: Arrivals
    world: World
    model: TraceModel
    runner: Runner
    recorder: Recorder
    timings: RowSink
    events: Iterable[Event] = ()
    progress: Progress | None = None
    progress_every: int = 512  # passes

    now_ns: int = 0
    num_finished: int = 0
    _in_flight: deque[InFlight] = field(default_factory=deque)

    def __post_init__(self) -> None:
        config = self.scheduler.config
        self._events = deque(self.events)
        self._watch = ProgressWatch()
        self._depth = config.passes_in_flight
        self._takes_drafts = config.num_speculative_tokens > 0 and not config.runs_ahead

    def run(self) -> None:
        """Replay until nothing is left to come."""
        while True:
            self._take_what_is_due()
            if self._may_run():
                if self._one_pass():
                    continue
            elif self._in_flight:
                self._fold()
                continue
            upcoming = self._next_ns()
            if upcoming is None:
                break
            self.now_ns = max(self.now_ns, upcoming)
        if self._num_unfinished():
            raise StallError(stall_message(self.scheduler))

    def close(self) -> None:
        """Write the rows of whoever is left; also after an error."""
        self.recorder.time_is(self.now_ns)
        self.recorder.unfinished(self.scheduler.requests.values())

    def _take_what_is_due(self) -> None:
        self.scheduler.now_ns = self.now_ns
        self.recorder.time_is(self.now_ns)
        self._take_arrivals()
        self.world.set_time(self.now_ns)
        while self._events and self._events[0].at_ns <= self.now_ns:
            self._act(self._events.popleft())

    def _num_unfinished(self) -> int:
        """Live requests but for sessions that wait for their next input."""
        return len(self.scheduler.requests) - self.scheduler.num_waiting_for_streaming_input

    def _may_run(self) -> bool:
        """Whether the engine would make a pass: there is work, and no pause that forbids it."""
        match self.scheduler.pause_state:
            case PauseState.PAUSED_ALL:
                return False
            case PauseState.PAUSED_NEW:
                return bool(self.scheduler.running)
        return self._num_unfinished() > 0

    def _next_ns(self) -> int | None:
        times = [self.arrivals.next_ns(), self.world.next_ns()]
        if self._events:
            times.append(self._events[0].at_ns)
        return min((at for at in times if at is not None), default=None)

    def _one_pass(self) -> bool:
        """Schedule a pass and, where the pipeline is full, fold the oldest in.

        False if nothing was scheduled and nothing is in flight or to be reported, so that only
        time can help.
        """
        self._in_flight.append(self._schedule())
        if len(self._in_flight) < self._depth:
            return True
        folded = self._fold()
        return bool(
            folded.output.num_scheduled_tokens
            or self.world.has_due_transfers(self.now_ns)
            or any(each.output.num_scheduled_tokens for each in self._in_flight)
        )

    def _schedule(self) -> InFlight:
        scheduler = self.scheduler
        scheduler.now_ns = self.now_ns
        began = time.perf_counter_ns()
        output = scheduler.schedule()
        spent = time.perf_counter_ns() - began
        first_half = self.recorder.scheduled(output, self.now_ns)
        result = self.runner.execute(output)
        sampled = self.model.sample(output, scheduler.requests)
        return InFlight(output, first_half, result, sampled, spent)

    def _fold(self) -> InFlight:
        """Fold the oldest pass in, at its end."""
        scheduler, in_flight = self.scheduler, self._in_flight.popleft()
        self.now_ns += in_flight.result.duration_ns
        transfers = self.world.report(self.now_ns)
        began = time.perf_counter_ns()
        outputs = scheduler.update_from_output(
            in_flight.output, ModelRunnerOutput(in_flight.sampled, transfers)
        )
        if self._takes_drafts:
            drafts = self.model.proposals(in_flight.sampled, scheduler.requests)
            spec_decode.set_drafts(scheduler, drafts)
        spent = in_flight.scheduler_ns + time.perf_counter_ns() - began
        self.recorder.folded(in_flight.first_half, in_flight.result, outputs, self.now_ns)
        result = in_flight.result
        self.timings.append(
            (self.recorder.num_passes - 1, spent, result.device_ns, result.host_ns, result.graph)
        )
        for request, _ in outputs.finished:
            self.num_finished += 1
            self.arrivals.finished(request.tag, self.now_ns)
        if self.progress is not None and self.recorder.num_passes % self.progress_every == 0:
            self.progress(self)
        if self._watch.is_stuck(scheduler, in_flight.output, outputs):
            raise StallError(stall_message(scheduler))
        return in_flight

    def _take_arrivals(self) -> None:
        for row, request in self.arrivals.take(self.now_ns):
            self.recorder.arrived(row, self.now_ns)
            self.scheduler.add_request(request)
            self.world.added(row, request, self._add_input, self._abort)

    def _add_input(self, request: Request) -> None:
        """Add a session's next input."""
        session = self.scheduler.requests.get(request.request_id)
        self.scheduler.add_request(request)
        if session is not None and session.is_finished:  # it was closed
            self.recorder.closed(session, self.now_ns)
            self.arrivals.finished(session.tag, self.now_ns)

    def _abort(self, request_id: str) -> None:
        ended = self.scheduler.finish_requests([request_id], RequestStatus.FINISHED_ABORTED)
        self.recorder.aborted(ended, self.now_ns)
        for request in ended:
            self.arrivals.finished(request.tag, self.now_ns)

    def _act(self, event: Event) -> None:
        scheduler = self.scheduler
        match event.op:
            case "pause":
                new = event.state == "new"
                scheduler.pause_state = PauseState.PAUSED_NEW if new else PauseState.PAUSED_ALL
                self.recorder.paused(Verdict.PAUSED_NEW if new else Verdict.PAUSED_ALL)
            case "resume":
                scheduler.pause_state = PauseState.UNPAUSED
            case "reset_prefix_cache":
                reset = scheduler.reset_prefix_cache(preempt_running=event.preempt)
                self.recorder.evicted(reset.victims)
            case "abort":
                self._abort(self._id_of(event.request))

    def _id_of(self, label: int | str) -> str:
        if isinstance(label, int):
            return f"{label:09d}"
        for request_id, request in self.scheduler.requests.items():
            if request.tag.request_id == label:
                return request_id
        raise TraceError(f"--events: abort names the request {label!r}, which is not live then")
