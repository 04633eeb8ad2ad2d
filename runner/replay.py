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

from schedbench.errors import EngineEndsError, StallError
from schedbench.results.units import duration
from schedbench.runner.api import PassResult
from schedbench.runner.cut import LONGEST_RUN, cut_run, cut_run_ahead
from schedbench.runner.express_exit import put_back
from schedbench.runner.in_flight import InFlight
from schedbench.runner.interrupts import interrupts_held_back
from schedbench.runner.so_far import SoFar
from schedbench.runner.stall import ProgressWatch, stall_message
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.request import RequestStatus
from schedbench.sched.scheduler import PauseState
from schedbench.sched.steady import SteadyDecodes
from schedbench.sched.steady_ahead import SteadyAhead
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.runner.api import Runner
    from schedbench.runner.arrivals import Arrivals
    from schedbench.runner.events import Event
    from schedbench.runner.express import ExpressReplay
    from schedbench.runner.interrupts import HeldBack
    from schedbench.runner.outputs_file import OutputsFile
    from schedbench.runner.record import Recorder
    from schedbench.runner.timing_rows import TimingRows
    from schedbench.runner.trace_model import TraceModel
    from schedbench.runner.world import World
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler


class Progress(Protocol):
    """Told now and then how far the replay is."""

    def __call__(self, replay: Replay) -> None: ...


@dataclass
class Replay:
    """One trace through one scheduler. `run` may be called once.

    Raises:
        StallError: no request can ever be scheduled again.
        EngineEndsError: vLLM's own engine would end there.
    """

    scheduler: Scheduler
    arrivals: Arrivals
    world: World
    model: TraceModel
    runner: Runner
    recorder: Recorder
    timings: TimingRows
    outputs: OutputsFile | None = None  # what leaves the engine, where it is written
    events: Iterable[Event] = ()
    progress: Progress | None = None
    progress_every: int = 512  # passes
    express: ExpressReplay | None = None  # goes as far as it can, before anything else
    short_way: bool = True  # go through decodes without looking at each, where that is the same

    now_ns: int = 0
    num_finished: int = 0
    _in_flight: deque[InFlight] = field(default_factory=deque)

    def __post_init__(self) -> None:
        config = self.scheduler.config
        self._events = deque(self.events)
        self.aborts_ignored: list[Event] = []  # of requests that were not there
        self._watch = ProgressWatch()
        self._depth = config.passes_in_flight
        self._steady: SteadyDecodes | None = None
        self._ahead: SteadyAhead | None = None
        tells = hasattr(self.runner, "decode_durations") and not self.runner.needs_block_ids
        if self.short_way and tells:
            if config.runs_ahead:
                self._ahead = SteadyAhead(self.scheduler)
            else:
                self._steady = SteadyDecodes(self.scheduler)
        self._left_express = False
        self._untold = 0  # passes since the last word about progress
        self._takes_drafts = config.num_speculative_tokens > 0 and not config.runs_ahead

    def run(self) -> None:
        """Replay until nothing is left to come, or until vLLM's engine would end."""
        try:
            self._run()
        except EngineEndsError as error:
            passes = self.recorder.num_passes
            where = f" (at {duration(self.now_ns)}, after {passes:,} passes)"
            raise error.told_with(where) from error

    def _run(self) -> None:
        if self.express is not None and self._all_the_way(self.express):
            return
        while True:
            upcoming = self._next_ns()
            while upcoming is not None and upcoming <= self.now_ns:  # an abort lets others come
                self._take_what_is_due()
                upcoming = self._next_ns()
            if self._may_run():
                if self._short_step(upcoming) or self._one_pass():
                    continue
            elif self._in_flight:
                self._leave()
                self._fold()
                continue
            upcoming = self._next_ns()
            if upcoming is None:
                break
            self.now_ns = max(self.now_ns, upcoming)
        if self._num_unfinished():
            raise StallError(stall_message(self.scheduler))

    def _all_the_way(self, express: ExpressReplay) -> bool:
        """Go the express way; False if something is left for the others."""
        first = self._events[0].at_ns if self._events else None
        with interrupts_held_back() as held:

            def tell(num_passes: int) -> None:
                self._tell_on_the_way(num_passes, held)

            try:
                ended = express.run(first, tell)
            finally:
                express.close()
            self._leave_express(express)
        return ended and not self._events

    def _leave_express(self, express: ExpressReplay) -> None:
        """Put what is left where the plain loops find it; nothing is, at the trace's end."""
        express.close()
        self._left_express = True
        self.now_ns, self.num_finished = express.now_ns, express.num_finished
        self._in_flight.extend(put_back(express, self.scheduler, self.recorder))
        self.arrivals = express.coming.rest()

    def _tell_on_the_way(self, num_passes: int, held: HeldBack) -> None:
        """As `_tell`; whoever has seen enough leaves requests behind, whose rows are due."""
        express = self.express
        assert express is not None
        self.now_ns, self.num_finished = express.now_ns, express.num_finished
        try:
            held.let_through()
            self._tell(num_passes)
        except BaseException:
            self._leave_express(express)
            raise

    def close(self) -> None:
        """Write the rows of whoever is left; also after an error."""
        self._leave()
        self.recorder.time_is(self.now_ns)
        self.recorder.unfinished(self.scheduler.requests.values())
        self.recorder.flush()
        self.timings.flush()

    def _take_what_is_due(self) -> None:
        self.scheduler.now_ns = self.now_ns
        self.recorder.time_is(self.now_ns)
        self._take_arrivals()
        event_ns = self._events[0].at_ns if self._events else None
        if self._is_due(self.world.next_ns()) or self._is_due(event_ns):
            self._leave()
        self.world.set_time(self.now_ns)
        while self._events and self._events[0].at_ns <= self.now_ns:
            self._act(self._events.popleft())

    def _is_due(self, at_ns: int | None) -> bool:
        return at_ns is not None and at_ns <= self.now_ns

    def _num_unfinished(self) -> int:
        """Live requests but for sessions that wait for their next input."""
        return len(self.scheduler.requests) - self.scheduler.num_waiting_for_streaming_input

    def _may_run(self) -> bool:
        """Whether the engine would make a pass: there is work, and no pause that forbids it."""
        scheduler = self.scheduler
        if scheduler.pause_state is PauseState.UNPAUSED:
            return self._num_unfinished() > 0
        if scheduler.pause_state is PauseState.PAUSED_ALL:
            return False
        holders = scheduler.queues.num_holding_kv - scheduler.num_waiting_for_streaming_input
        return bool(scheduler.running) or holders > 0

    def _next_ns(self) -> int | None:
        upcoming = self.arrivals.next_ns()
        timer_ns = self.world.next_ns()
        if timer_ns is not None and (upcoming is None or timer_ns < upcoming):
            upcoming = timer_ns
        if self._events and (upcoming is None or self._events[0].at_ns < upcoming):
            upcoming = self._events[0].at_ns
        return upcoming

    def _one_pass(self) -> bool:
        """Schedule a pass and, where the pipeline is full, fold the oldest in.

        False if nothing changed and nothing is in flight or to be reported, so that only time can
        help.
        """
        self._in_flight.append(self._schedule())
        if len(self._in_flight) < self._depth:
            return True
        passes = [self._fold(), *self._in_flight]
        due = self.world.has_due_transfers(self.now_ns)
        return due or any(each.changes_something for each in passes)

    def _short_step(self, until_ns: int | None) -> bool:
        """Go a step of the short way, if there is one: a run of decodes, or an admission.

        A run ends before the first pass that starts at `until_ns` or later.
        """
        if self._ahead is not None:
            return self._step_ahead(self._ahead, until_ns)
        steady = self._steady
        if steady is None or not steady.enter(self.recorder.in_step):
            self._leave()
            return False
        if steady.wants_admission():
            return self._admit_beside()
        num_passes = min(steady.longest_run(), LONGEST_RUN)
        if not num_passes:
            self._leave()
            steady.wait_a_little()
            return False
        began = time.perf_counter_ns()
        durations = self.runner.decode_durations(  # type: ignore[attr-defined]
            steady.num_decodes, steady.context_tokens, num_passes
        )
        num_passes, durations = cut_run(durations, num_passes, self.now_ns, until_ns)
        run = steady.run(num_passes)
        spent = (time.perf_counter_ns() - began) // num_passes
        first = self.recorder.num_passes
        self.now_ns = self.recorder.ran(run, self.now_ns, durations)
        self.timings.add(first, num_passes, spent)
        self._watch.emitted()
        self._account([request for request, _ in run.ended], num_passes)
        return True

    def _admit_beside(self) -> bool:
        """Make one pass of decodes put aside and admissions."""
        steady, start_ns = self._steady, self.now_ns
        assert steady is not None
        began = time.perf_counter_ns()
        output = steady.schedule_admissions()
        if output is None:
            self._leave()
            steady.wait_a_little()
            return False
        spent = time.perf_counter_ns() - began
        first_half = self.recorder.scheduled(output, start_ns)
        result = self.runner.execute(output)
        self.now_ns += result.duration_ns
        began = time.perf_counter_ns()
        outputs, ended = steady.fold_admissions(output)
        spent += time.perf_counter_ns() - began
        put_aside = (output.num_put_aside, ended)
        self.recorder.folded(first_half, result, outputs, self.now_ns, put_aside)
        self.timings.add(self.recorder.num_passes - 1, 1, spent, result)
        self._watch.emitted()
        self._account([request for request, _ in outputs.finished], 1)
        return True

    def _step_ahead(self, ahead: SteadyAhead, until_ns: int | None) -> bool:
        """The short way with a pass in flight: a run of decodes, or one pass with admissions."""
        if not ahead.enter(one_in_flight=len(self._in_flight) == 1):
            self._leave()
            return False
        num_passes = min(ahead.longest_run(), LONGEST_RUN)
        if num_passes > 1:
            self._run_ahead(ahead, num_passes, until_ns)
            return True
        began = time.perf_counter_ns()
        output = ahead.schedule()
        if output is None:
            self._leave()
            ahead.wait_a_little()
            return False
        spent = time.perf_counter_ns() - began
        first_half = self.recorder.scheduled(output, self.now_ns)
        result = self.runner.execute(output)
        sampled = {r.request_id: 1 for r, _, _ in output.prefills if not r.is_prefill_chunk}
        self._in_flight.append(
            InFlight(output, first_half, result, sampled, spent, ahead.num_emitting)
        )
        self._fold_ahead(ahead)
        return True

    def _fold_ahead(self, ahead: SteadyAhead) -> None:
        old = self._in_flight.popleft()
        self.now_ns += old.result.duration_ns
        began = time.perf_counter_ns()
        outputs, ended = ahead.fold(old.output, old.sampled)
        spent = old.scheduler_ns + time.perf_counter_ns() - began
        put_aside = (old.num_put_aside, ended)
        self.recorder.folded(old.first_half, old.result, outputs, self.now_ns, put_aside)
        self.timings.add(self.recorder.num_passes - 1, 1, spent, old.result)
        self._watch.emitted()
        self._account([request for request, _ in outputs.finished], 1)

    def _run_ahead(self, ahead: SteadyAhead, num_passes: int, until_ns: int | None) -> None:
        """Fold in the pass in flight and those like it that follow, but for the last of them."""
        began = time.perf_counter_ns()
        pending = self._in_flight[0]
        first_ns = pending.result.duration_ns
        durations = self.runner.decode_durations(  # type: ignore[attr-defined]
            ahead.num_decodes, ahead.context_tokens, num_passes
        )
        num_passes, durations = cut_run_ahead(
            first_ns, durations, num_passes, self.now_ns, until_ns
        )
        run = ahead.run(num_passes)
        spent = (time.perf_counter_ns() - began) // num_passes
        first = self.recorder.num_passes
        self.now_ns, half = self.recorder.ran_ahead(
            run, pending.first_half, (first_ns, durations), self.now_ns
        )
        self.timings.add(first, num_passes, spent)
        last_ns = durations if isinstance(durations, int) else int(durations[-1])
        pending.first_half, pending.result = half, PassResult(last_ns, pending.result.source)
        self._watch.emitted()
        self._account([], num_passes)

    def _leave(self) -> None:
        """Catch up with the requests that were put aside, so that anybody may look at them."""
        if self._steady is not None:
            self.recorder.caught_up(self._steady.leave())
        if self._ahead is not None:
            ended, in_flight = self._ahead.leave()
            self.recorder.caught_up(ended)
            if in_flight:
                self._in_flight[0].list_decodes([request.request_id for request in in_flight])

    def _account(self, finished: list[Request], num_passes: int) -> None:
        """Tell whoever waits for these requests to end, and whoever watches."""
        for request in finished:
            self.num_finished += 1
            self.arrivals.finished(request.tag, self.now_ns)
        self._tell(num_passes)

    def _tell(self, num_passes: int) -> None:
        self._untold += num_passes
        if self._untold < self.progress_every:
            return
        self._untold = 0
        self.recorder.itl.settle()
        if self.progress is not None:
            self.progress(self)

    def so_far(self) -> SoFar:
        """How far the replay is."""
        if self.express is not None and not self._left_express:
            return self.express.so_far()
        scheduler = self.scheduler
        return SoFar(
            self.now_ns,
            self.recorder.num_passes,
            self.num_finished,
            len(scheduler.requests),
            len(scheduler.running),
            len(scheduler.queues),
            scheduler.kv_cache.pool.num_free,
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
        in_flight.settled = transfers is not None or bool(outputs.finished)
        if self._takes_drafts:
            drafts = self.model.proposals(in_flight.sampled, scheduler.requests)
            scheduler.update_draft_token_ids(drafts)
        spent = in_flight.scheduler_ns + time.perf_counter_ns() - began
        if self.outputs is not None:
            self.outputs.write(self.recorder.num_passes, outputs)
        self.recorder.folded(in_flight.first_half, in_flight.result, outputs, self.now_ns)
        self.timings.add(self.recorder.num_passes - 1, 1, spent, in_flight.result)
        self._account([request for request, _ in outputs.finished], 1)
        if self._watch.is_stuck(scheduler, in_flight.output, outputs):
            raise StallError(stall_message(scheduler))
        return in_flight

    def _take_arrivals(self) -> None:
        for row, request in self.arrivals.take(self.now_ns):
            self.recorder.arrived(row, self.now_ns)
            self.scheduler.add_request(request)
            self.world.added(row, request, self._add_input, self._abort)
            if self._steady is not None:
                self._steady.somebody_came()
            if self._ahead is not None:
                self._ahead.somebody_came()

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
        if ended:
            self._watch.what_was_known_is_gone()
        for request in ended:
            self.arrivals.finished(request.tag, self.now_ns)

    def _act(self, event: Event) -> None:
        scheduler = self.scheduler
        match event.op:
            case "pause":
                new = event.state == "new"
                scheduler.pause(PauseState.PAUSED_NEW if new else PauseState.PAUSED_ALL)
                self.recorder.paused(Verdict.PAUSED_NEW if new else Verdict.PAUSED_ALL)
            case "resume":
                scheduler.pause(PauseState.UNPAUSED)
            case "reset_prefix_cache":
                reset = scheduler.reset_prefix_cache(preempt_running=event.preempt)
                self.recorder.evicted(reset.victims)
            case "abort":
                self._abort_row(event)

    def _abort_row(self, event: Event) -> None:
        request_id = f"{event.request:09d}"
        if request_id not in self.scheduler.requests:
            self.aborts_ignored.append(event)
        self._abort(request_id)
