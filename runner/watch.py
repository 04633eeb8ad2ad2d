"""Looking on while a trace is replayed.

Nothing on the plain path knows of a watcher: it is put around the methods of one scheduler, and
around the loops' own functions while `schedule()` runs, only in a replay that is to be explained.
What is decided does not change, and the rows of a watched replay are those of a plain one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, cast

from schedbench.errors import StallError
from schedbench.results.memory_log import MemoryRun
from schedbench.runner.events import of_rows
from schedbench.runner.following import replay_class
from schedbench.runner.plugins import load_policy, load_scheduler
from schedbench.runner.record import Recorder
from schedbench.runner.run import make_arrivals, may_count
from schedbench.runner.timing_rows import TimingRows
from schedbench.runner.trace_model import TraceModel
from schedbench.runner.waits import WAIT_LABELS
from schedbench.runner.world import World
from schedbench.sched import admission_loop, running_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schedbench.runner.api import Runner
    from schedbench.runner.record import FirstHalf
    from schedbench.runner.replay import Progress, Replay
    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler
    from schedbench.sched.verdicts import Verdict
    from schedbench.workloads.trace import Trace


Loop = Literal["running", "admission"]


class WatchedEnoughError(Exception):
    """A watcher has seen what it wanted to; the replay ends."""


class Watcher:
    """What can be seen of a replay. A watcher overrides what it looks at, and changes nothing.

    `needs_every_pass`: whether it looks at passes in which nothing but decoding happens. Without
    them `begins`, `decides` and `folded` are called for the others only, `scheduled` for the others
    and those with admissions.
    """

    needs_every_pass = True

    def opens(self, replay: Replay, trace: Trace) -> None:
        """A replay of a prepared trace is about to begin."""

    def arrives(self, replay: Replay, request: Request) -> None:
        """A request, or a session's next input, was added."""

    def begins(self, replay: Replay) -> None:
        """`schedule()` is about to be called."""

    def decides(
        self, replay: Replay, loop: Loop, this_pass: SchedulePass, request: Request, found: Verdict
    ) -> None:
        """A loop came to a request, and found this."""

    def evicts(self, replay: Replay, victim: Request, tokens: int, by: Request | None) -> None:
        """`tokens` computed ones are lost so that `by` gets blocks; None: for a cache reset."""

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        """A pass is decided."""

    def folded(self, replay: Replay, output: SchedulerOutput, outputs: EngineCoreOutputs) -> None:
        """A pass is folded in; the clock stands at its end."""

    def ended(self, replay: Replay, request: Request) -> None:
        """A request was ended from outside: aborted, or its session closed."""


@dataclass(frozen=True)
class Watched:
    """What a watched replay left: its rows, and why it stalled if it did."""

    rows: MemoryRun
    replay: Replay
    stalled: str | None = None


def watch(
    trace: Trace,
    config: SchedulerConfig,
    options: ReplayOptions,
    runner: Runner,
    watcher: Watcher,
    *,
    passes: int | None = None,
    progress: Progress | None = None,
) -> Watched:
    """Replay a prepared trace in memory, `passes` of it if not all, and let the watcher look on."""
    rows = MemoryRun(WAIT_LABELS)
    world = World(block_size=config.block_size, has_remote_kv=config.kv_role is not None)
    policy = load_policy(options.policy_class)
    scheduler = load_scheduler(options.scheduler)(
        config,
        world.store,
        policy,
        counts_blocks=not watcher.needs_every_pass and may_count(trace, config, runner),
    )
    replay = replay_class(runner, trace)(
        scheduler=scheduler,
        arrivals=make_arrivals(trace, config, options),
        world=world,
        model=TraceModel(config.num_speculative_tokens, options.spec_acceptance, options.seed),
        runner=runner,
        recorder=Recorder(scheduler, rows.passes, rows.requests, options.warmup_ns),
        timings=TimingRows(rows.timings),
        events=of_rows(options.events, trace),
        progress=progress,
        short_way=not watcher.needs_every_pass and options.short_way,
    )
    runner.open(config)
    watcher.opens(replay, trace)
    stalled = None
    with _looking_on(replay, watcher, passes):
        try:
            replay.run()
        except StallError as error:
            stalled = str(error)
        except WatchedEnoughError:
            pass
    replay.close()
    runner.close()
    for lengths, counts in replay.recorder.itl.in_order():
        rows.itl.extend_columns(len(lengths), [lengths, counts])
    return Watched(rows, replay, stalled)


@contextmanager
def _looking_on(replay: Replay, watcher: Watcher, passes: int | None) -> Iterator[None]:
    _around_calls(replay, watcher, passes)
    modules: list[tuple[Any, str, Any]] = [
        (running_loop, "make_room", _seeing_victims(running_loop.make_room, replay, watcher)),
    ]
    if type(watcher).decides is not Watcher.decides:  # else it need not slow every decision
        one, next_one = running_loop.schedule_one, admission_loop.consider
        modules += [
            (running_loop, "schedule_one", _seeing_verdicts(one, "running", replay, watcher)),
            (admission_loop, "consider", _seeing_verdicts(next_one, "admission", replay, watcher)),
        ]
    plain = [(module, name, getattr(module, name)) for module, name, _ in modules]
    try:
        for module, name, wrapped in modules:
            setattr(module, name, wrapped)
        yield
    finally:
        for module, name, function in plain:
            setattr(module, name, function)


def _around_calls(replay: Replay, watcher: Watcher, passes: int | None) -> None:
    """Put the watcher around what the replay loop calls."""
    scheduler: Any = replay.scheduler
    add, schedule, fold = scheduler.add_request, scheduler.schedule, scheduler.update_from_output
    finish, reset = scheduler.finish_requests, scheduler.reset_prefix_cache
    recorder: Any = replay.recorder
    record = recorder.scheduled
    coming = iter(count() if passes is None else range(passes))

    def add_request(request: Request) -> None:
        add(request)
        watcher.arrives(replay, request)

    def schedule_pass(**options: bool) -> SchedulerOutput:
        if next(coming, None) is None:
            raise WatchedEnoughError
        watcher.begins(replay)
        return cast("SchedulerOutput", schedule(**options))

    def recorded(output: SchedulerOutput, now_ns: int) -> FirstHalf:
        watcher.scheduled(replay, output)
        return cast("FirstHalf", record(output, now_ns))

    def update_from_output(output: SchedulerOutput, model: object) -> EngineCoreOutputs:
        outputs: EngineCoreOutputs = fold(output, model)
        watcher.folded(replay, output, outputs)
        return outputs

    def finish_requests(*args: object) -> list[Request]:
        found: list[Request] = finish(*args)
        for request in found:
            watcher.ended(replay, request)
        return found

    def reset_prefix_cache(**options: bool) -> object:
        done = reset(**options)
        for victim in done.victims:
            watcher.evicts(replay, victim.request, victim.num_computed_tokens, None)
        return done

    scheduler.add_request, scheduler.schedule = add_request, schedule_pass
    scheduler.update_from_output = update_from_output
    scheduler.finish_requests, scheduler.reset_prefix_cache = finish_requests, reset_prefix_cache
    recorder.scheduled = recorded


def _seeing_verdicts(
    decide: Callable[..., Any], loop: Loop, replay: Replay, watcher: Watcher
) -> Callable[..., Any]:
    """`decide`, of either loop; dry runs on a stand-in for the scheduler are not told."""

    def decided(
        scheduler: Scheduler, this_pass: SchedulePass, request: Request, *rest: int
    ) -> object:
        found = decide(scheduler, this_pass, request, *rest)
        if scheduler is replay.scheduler:
            verdict = found[0] if isinstance(found, tuple) else found
            watcher.decides(replay, loop, this_pass, request, verdict)
        return found

    return decided


def _seeing_victims(
    make_room: Callable[..., Any], replay: Replay, watcher: Watcher
) -> Callable[..., Any]:
    def made_room(
        scheduler: Scheduler, this_pass: SchedulePass, request: Request, index: int
    ) -> object:
        before = len(this_pass.victims)
        found = make_room(scheduler, this_pass, request, index)
        for victim in this_pass.victims[before:]:
            watcher.evicts(replay, victim.request, victim.num_computed_tokens, request)
        return found

    return made_room
