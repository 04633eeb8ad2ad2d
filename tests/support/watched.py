"""A replay that is held to the laws of docs/invariants.md after every call of the scheduler."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict, deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from laws import LawBrokenError, hold_to_pass_laws, hold_to_state_laws

from schedbench.errors import StallError
from schedbench.runner import run as run_module
from schedbench.runner.clock import ClockRunner
from schedbench.runner.record import Recorder
from schedbench.runner.timers import Timers
from schedbench.runner.waits import IN_FLIGHT
from schedbench.sched import scheduler as scheduler_module
from schedbench.sched.admission_loop import admit_waiting
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.request import RequestStatus
from schedbench.sched.scheduler import PauseState, Scheduler
from schedbench.sched.verdicts import Verdict
from schedbench.sched.what_if import admissions_that_fit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.runner.api import PassResult
    from schedbench.runner.record import FirstHalf
    from schedbench.runner.requests import Row
    from schedbench.runner.run import ReplayOptions, Run
    from schedbench.sched.output import (
        EngineCoreOutputs,
        ModelRunnerOutput,
        SchedulerOutput,
        Victim,
    )
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.workloads.trace import Trace


COST = ClockRunner(1_000_000, 10_000)
MAX_PASSES = 2000  # far more than any random case needs


def state_of(*roots: object) -> object:
    """Everything reachable from these objects as plain nested values, shared parts by number."""
    seen: dict[int, int] = {}

    def walk(value: Any) -> object:  # noqa: ANN401 - anything at all
        if value is None or isinstance(value, int | float | str | bytes | Enum):
            return value
        if id(value) in seen:
            return ("seen", seen[id(value)])
        seen[id(value)] = len(seen)
        if isinstance(value, dict):
            return (type(value).__name__, [(walk(key), walk(each)) for key, each in value.items()])
        if isinstance(value, set | frozenset):
            return ("set", [walk(each) for each in sorted(value, key=_name_of)])
        if isinstance(value, list | tuple | deque):
            return (type(value).__name__, [walk(each) for each in value])
        if isinstance(value, SchedulerConfig | Timers | Watch) or callable(value):
            return type(value).__name__
        return (type(value).__name__, _attributes(value, walk))

    return [walk(root) for root in roots]


def _name_of(value: object) -> str:
    return str(getattr(value, "request_id", value))


def _attributes(value: object, walk: Any) -> object:  # noqa: ANN401
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += getattr(value, "__dict__", {})
    return [(name, walk(getattr(value, name, None))) for name in sorted(set(names))]


@dataclass
class Diary:
    """Who stood in the queues from one schedule() to the next, walked one by one. Times in ns."""

    waited: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _since: dict[int, int] = field(default_factory=dict)
    _own: dict[int, Verdict] = field(default_factory=dict)
    _stop: Verdict = Verdict.QUEUES_EMPTY

    def enters(self, row: int, now_ns: int) -> None:
        self._since[row] = now_ns

    def leaves(self, row: int, now_ns: int) -> None:
        since = self._since.pop(row, now_ns)
        self.waited[row][self._own.get(row, self._stop).label] += now_ns - since

    def set_aside(self, row: int, verdict: Verdict) -> None:
        self._own = self._own | {row: verdict}

    def turns_over(self, now_ns: int, stop: Verdict, own: dict[int, Verdict]) -> None:
        """From here on somebody else is to blame."""
        for row in list(self._since):
            self.leaves(row, now_ns)
            self.enters(row, now_ns)
        self._stop, self._own = stop, own


@dataclass
class Watch:
    """What one run did, noted independently of the code under test."""

    config: SchedulerConfig
    throttle_interval: int = 1
    passes: int = 0
    closed_passes: int = 0
    dry_runs: int = 0
    predicted: int = 0
    computed: dict[str, int] = field(default_factory=dict)  # tokens of the live ones that ran
    scheduled_tokens: Counter[str] = field(default_factory=Counter)
    rejected_drafts: Counter[str] = field(default_factory=Counter)
    external_tokens: Counter[str] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    sessions_closed: int = 0  # between two passes
    last_output: SchedulerOutput | None = None
    aborted: int = 0
    aborted_before_the_last_row: int = 0
    diary: Diary = field(default_factory=Diary)
    last_start_ns: int = 0
    last_end_ns: int = 0
    scheduler: WatchedScheduler | None = None

    def broken(self, number: int, complaint: str) -> LawBrokenError:
        return LawBrokenError(f"law {number}: pass {self.passes}: {complaint}")


class WatchedScheduler(Scheduler):
    """Every public call is followed by all laws; every admission loop preceded by a dry run."""

    def __init__(self, watch: Watch, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs | {"counts_blocks": False})
        self.watch = watch
        watch.scheduler = self

    def add_request(self, request: Request) -> None:
        super().add_request(request)
        hold_to_state_laws(self)

    def schedule(self, *, throttle_prefills: bool = False) -> SchedulerOutput:
        del throttle_prefills
        watch = self.watch
        throttled = watch.passes % watch.throttle_interval != 0
        output = super().schedule(throttle_prefills=throttled)
        hold_to_state_laws(self)
        hold_to_pass_laws(self, output)
        self._follow_scheduled(output)
        watch.passes += 1
        watch.last_output = output
        if watch.passes > MAX_PASSES:
            raise watch.broken(17, f"the replay does not end: {self.running}, {list(self.queues)}")
        return output

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> EngineCoreOutputs:
        self._follow_drafts(scheduler_output, model_runner_output)
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        hold_to_state_laws(self)
        transfers = model_runner_output.kv_connector_output
        self._follow_computed(may_be_cut=transfers is not None and transfers.invalid_block_ids)
        return outputs

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        found = super().finish_requests(request_ids, status)
        hold_to_state_laws(self)
        return found

    def reset_prefix_cache(self, *, preempt_running: bool = False) -> scheduler_module.CacheReset:
        reset = super().reset_prefix_cache(preempt_running=preempt_running)
        for victim in reset.victims:
            self.watch.computed[victim.request.request_id] = 0
        hold_to_state_laws(self)
        return reset

    def admit(self, this_pass: SchedulePass) -> Verdict:
        if this_pass.victims or self.pause_state is not PauseState.UNPAUSED:
            return super().admit(this_pass)
        predicted = untouching_dry_run(self, this_pass)
        stop = super().admit(this_pass)
        admitted = len(this_pass.new) + len(this_pass.resumed)
        if predicted != admitted:
            raise self.watch.broken(14, f"{predicted} would fit, {admitted} were admitted")
        return stop

    def _follow_scheduled(self, output: SchedulerOutput) -> None:
        """Law 9: a grant begins where the one before it ended."""
        watch = self.watch
        for victim in output.victims:
            self._expect(victim.request, victim.num_computed_tokens)
            watch.computed[victim.request.request_id] = 0
        admitted = {*output.scheduled_new_reqs, *output.scheduled_resumed_reqs}
        for request_id, count in output.num_scheduled_tokens.items():
            request = self.requests[request_id]
            start = request.num_computed_tokens - count
            if request not in admitted:
                self._expect(request, start)
            elif not 0 <= start < request.num_tokens:
                raise watch.broken(9, f"{request} is admitted with {start} computed tokens")
            elif request_id in output.lookups:
                watch.external_tokens[request_id] += start - output.lookups[request_id]
            watch.computed[request_id] = request.num_computed_tokens
            watch.scheduled_tokens[request_id] += count

    def _expect(self, request: Request, start: int) -> None:
        before = self.watch.computed[request.request_id]
        if start != before:
            raise self.watch.broken(9, f"{request} goes on at {start}, was computed to {before}")

    def _follow_drafts(self, output: SchedulerOutput, model_output: ModelRunnerOutput) -> None:
        for request_id, count in output.scheduled_spec_decode_tokens.items():
            request = self.requests.get(request_id)
            sampled = model_output.num_sampled_tokens.get(request_id, 0)
            if request is None or request.is_finished or not sampled:
                continue
            if request.num_outputs_to_discard or not self.watch.computed[request_id]:
                continue
            rejected = count - (sampled - 1)
            self.watch.computed[request_id] -= rejected
            self.watch.rejected_drafts[request_id] += rejected

    def _follow_computed(self, *, may_be_cut: bool) -> None:
        for request in self.running:
            before, now = self.watch.computed[request.request_id], request.num_computed_tokens
            if now != before and not (may_be_cut and now < before):
                raise self.watch.broken(9, f"{request} was computed to {before}")
            self.watch.computed[request.request_id] = now


class WatchedRecorder(Recorder):
    """Law 10 by a diary: the same facts, walked one by one."""

    def __init__(self, watch: Watch, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.watch = watch
        self.now_ns = 0

    def time_is(self, now_ns: int) -> None:
        super().time_is(now_ns)
        self.now_ns = now_ns

    def arrived(self, row: Row, now_ns: int) -> None:
        super().arrived(row, now_ns)
        self.watch.diary.waited[row.row][IN_FLIGHT] += now_ns - row.arrival_ns
        self.watch.diary.enters(row.row, now_ns)

    def scheduled(self, output: SchedulerOutput, now_ns: int) -> FirstHalf:
        self.now_ns = now_ns
        first_half = super().scheduled(output, now_ns)
        watch = self.watch
        if now_ns < watch.last_start_ns:
            raise watch.broken(11, f"schedule() at {now_ns} after {watch.last_start_ns}")
        watch.last_start_ns = now_ns
        own = {request.tag.row: verdict for request, verdict in output.set_aside}
        for request in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs):
            watch.diary.leaves(request.tag.row, now_ns)
        watch.diary.turns_over(now_ns, output.admission_stop, own)
        for victim in output.victims:
            watch.diary.enters(victim.request.tag.row, now_ns)
        return first_half

    def folded(
        self,
        first_half: FirstHalf,
        result: PassResult,
        outputs: EngineCoreOutputs,
        end_ns: int,
    ) -> None:
        self.now_ns = end_ns
        super().folded(first_half, result, outputs, end_ns)
        watch = self.watch
        if end_ns < watch.last_end_ns or end_ns < first_half.start_ns:
            raise watch.broken(11, f"a pass ended at {end_ns} after {watch.last_end_ns}")
        watch.last_end_ns = end_ns
        watch.aborted_before_the_last_row = watch.aborted
        self._left([request for request, _ in outputs.finished], end_ns)
        for request in outputs.segments_done:
            watch.diary.enters(request.tag.row, end_ns)
            if request.status is RequestStatus.WAITING_FOR_STREAMING_REQ:
                watch.diary.set_aside(request.tag.row, Verdict.AWAITING_INPUT)

    def aborted(self, requests: list[Request], now_ns: int) -> None:
        super().aborted(requests, now_ns)
        self.watch.aborted += len(requests)
        self._left(requests, now_ns)

    def closed(self, session: Request, now_ns: int) -> None:
        super().closed(session, now_ns)
        self.watch.sessions_closed += 1
        self._left([session], now_ns)

    def evicted(self, victims: Iterable[Victim], *args: Any) -> None:  # noqa: ANN401
        super().evicted(victims, *args)
        for victim in victims:
            self.watch.diary.enters(victim.request.tag.row, self.now_ns)

    def paused(self, verdict: Verdict) -> None:
        super().paused(verdict)
        self.watch.diary.turns_over(self.now_ns, verdict, {})

    def unfinished(self, requests: Iterable[Request]) -> None:
        self.watch.diary.turns_over(self.now_ns, Verdict.QUEUES_EMPTY, {})
        super().unfinished(requests)

    def _left(self, requests: Iterable[Request], now_ns: int) -> None:
        for request in requests:
            self.watch.ended[request.tag.row] += 1
            self.watch.diary.leaves(request.tag.row, now_ns)


def untouching_dry_run(scheduler: WatchedScheduler, this_pass: SchedulePass) -> int:
    """Count the admissions that fit; law 14: nothing is changed by that."""
    watch = scheduler.watch
    before = state_of(scheduler, this_pass)
    count = admissions_that_fit(scheduler, this_pass)
    if state_of(scheduler, this_pass) != before:
        raise watch.broken(14, "counting the admissions that fit changed the state")
    watch.dry_runs += 1
    watch.predicted += count
    return count


def checked_dry_run(scheduler: WatchedScheduler, this_pass: SchedulePass) -> int:
    """The dry run of a pass that a preemption closed, held to a real run on a deep copy."""
    count = untouching_dry_run(scheduler, this_pass)
    scheduler.watch.closed_passes += 1
    real = really_admitted(scheduler, this_pass)
    if count != real:
        raise scheduler.watch.broken(14, f"{count} would fit, a copy admits {real}")
    return count


def really_admitted(scheduler: Scheduler, this_pass: SchedulePass) -> int:
    """Run the admission loop itself on copies of everything; count all but this pass's victims."""
    watch = getattr(scheduler, "watch", None)
    memo: dict[int, object] = {id(scheduler.config): scheduler.config, id(watch): watch}
    if scheduler.transfers is not None:  # a load that begins on the copy may not set real timers
        memo[id(getattr(scheduler.transfers.connector, "_timers", None))] = Timers()
    other, trial = copy.deepcopy((scheduler, this_pass), memo)
    victims = {victim.request for victim in trial.victims}
    admit_waiting(other, trial)
    return len({*trial.new, *trial.resumed} - victims)


def watched_replay(
    trace: Trace,
    config: SchedulerConfig,
    options: ReplayOptions,
    *,
    runner: ClockRunner | None = None,
    throttle_interval: int = 1,
) -> tuple[Watch, Run | None]:
    """`schedbench.replay`, held to the laws; every pass goes the plain way, on numbered blocks.

    No run comes of it if it stalls.

    Raises:
        LawBrokenError: one of the laws does not hold.
    """
    watch = Watch(config, throttle_interval)
    with ExitStack() as patches:
        for target, name, stand_in in (
            (run_module, "load_scheduler", lambda _: partial(WatchedScheduler, watch)),
            (run_module, "Recorder", partial(WatchedRecorder, watch)),
            (scheduler_module, "admissions_that_fit", checked_dry_run),
        ):
            patches.enter_context(patch.object(target, name, stand_in))
        try:
            return watch, run_module.replay(trace, config, runner or COST, options=options)
        except StallError:
            return watch, None
