"""The replay loop: arrivals, schedule, execute, update, record, on a clock of integer ns."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from schedbench.errors import StallError, TraceError
from schedbench.runner.stall import ProgressWatch, stall_message
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.request import RequestStatus
from schedbench.sched.scheduler import PauseState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.runner.api import Runner
    from schedbench.runner.arrivals import Arrivals
    from schedbench.runner.events import Event
    from schedbench.runner.record import Recorder, RowSink
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.scheduler import Scheduler


class Progress(Protocol):
    """Told now and then how far the replay is."""

    def __call__(self, replay: Replay) -> None: ...


@dataclass
class Replay:
    """One trace through one scheduler. `run` may be called once.

    Raises:
        StallError: no request can ever be scheduled again.
    """

    scheduler: Scheduler
    arrivals: Arrivals
    runner: Runner
    recorder: Recorder
    timings: RowSink
    events: Iterable[Event] = ()
    progress: Progress | None = None
    progress_every: int = 512  # passes

    now_ns: int = 0
    num_finished: int = 0
    _aborts: list[tuple[int, str]] = field(default_factory=list)
    _rows_by_label: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._events = deque(self.events)
        self._watch = ProgressWatch()

    def run(self) -> None:
        """Replay until nothing is left to come."""
        while True:
            self._take_arrivals()
            self._act_on_events()
            self._act_on_aborts()
            if self._may_run() and self._one_pass():
                continue
            upcoming = self._next_ns()
            if upcoming is None:
                break
            self.now_ns = max(self.now_ns, upcoming)
        if self.scheduler.requests:
            raise StallError(stall_message(self.scheduler))

    def close(self) -> None:
        """Write the rows of whoever is left; also after an error."""
        self.recorder.unfinished(self.scheduler.requests.values())

    def _may_run(self) -> bool:
        """Whether the engine would make a pass: there is work, and no pause that forbids it."""
        scheduler = self.scheduler
        match scheduler.pause_state:
            case PauseState.PAUSED_ALL:
                return False
            case PauseState.PAUSED_NEW:
                return bool(scheduler.running)
        return bool(scheduler.requests)

    def _next_ns(self) -> int | None:
        times = [self.arrivals.next_ns()]
        if self._events:
            times.append(self._events[0].at_ns)
        while self._aborts and self._aborts[0][1] not in self.scheduler:
            heapq.heappop(self._aborts)
        if self._aborts:
            times.append(self._aborts[0][0])
        return min((at for at in times if at is not None), default=None)

    def _one_pass(self) -> bool:
        """Make a pass; False if it scheduled nothing, so that only time can help."""
        scheduler, start_ns = self.scheduler, self.now_ns
        self.recorder.schedule_starts(start_ns)
        began = time.perf_counter_ns()
        output = scheduler.schedule()
        spent = time.perf_counter_ns() - began
        queues = (
            len(scheduler.running),
            len(scheduler.waiting),
            len(scheduler.skipped_waiting),
        )
        self.recorder.scheduled(output, start_ns)
        result = self.runner.execute(output)
        self.now_ns = end_ns = start_ns + result.duration_ns

        began = time.perf_counter_ns()
        outputs = scheduler.update_from_output(output, self._sample(output))
        spent += time.perf_counter_ns() - began
        self.recorder.passed(output, queues, result, outputs, start_ns, end_ns)
        self.timings.append(
            (self.recorder.num_passes - 1, spent, result.device_ns, result.host_ns, result.graph)
        )
        for request, _ in outputs.finished:
            self.num_finished += 1
            self.arrivals.finished(request.tag, end_ns)
        if self.progress is not None and self.recorder.num_passes % self.progress_every == 0:
            self.progress(self)
        if self._watch.is_stuck(scheduler, output, outputs):
            raise StallError(stall_message(scheduler))
        return bool(output.num_scheduled_tokens)

    def _sample(self, output: SchedulerOutput) -> ModelRunnerOutput:
        """One token for every request whose known tokens are all computed."""
        sampled = dict.fromkeys(output.num_scheduled_tokens, 1)
        for request, _, _ in output.prefills:
            if request.is_prefill_chunk:
                del sampled[request.request_id]
        return ModelRunnerOutput(sampled)

    def _take_arrivals(self) -> None:
        for row, request in self.arrivals.take(self.now_ns):
            self.recorder.schedule_starts(self.now_ns)
            self.recorder.arrived(row, self.now_ns)
            self.scheduler.add_request(request)
            if row.abort_after_ns is not None:
                at_ns = row.arrival_ns + row.abort_after_ns
                heapq.heappush(self._aborts, (at_ns, request.request_id))

    def _act_on_aborts(self) -> None:
        while self._aborts and self._aborts[0][0] <= self.now_ns:
            self._abort(heapq.heappop(self._aborts)[1])

    def _abort(self, request_id: str) -> None:
        ended = self.scheduler.finish_requests([request_id], RequestStatus.FINISHED_ABORTED)
        self.recorder.aborted(ended, self.now_ns)
        for request in ended:
            self.arrivals.finished(request.tag, self.now_ns)

    def _act_on_events(self) -> None:
        while self._events and self._events[0].at_ns <= self.now_ns:
            self._act(self._events.popleft())

    def _act(self, event: Event) -> None:
        scheduler = self.scheduler
        match event.op:
            case "pause":
                new = event.state == "new"
                scheduler.pause_state = PauseState.PAUSED_NEW if new else PauseState.PAUSED_ALL
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
