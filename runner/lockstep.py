"""Two schedulers on one trace, pass by pass: this project's, and the installed vLLM's own class.

`LockstepScheduler` decides as its base does and has the real class decide the same passes beside
it. The first pass in which they differ ends the replay, and so does one in which both end the
engine. The real class hears what this one hears:
requests, aborts, pauses, resets, compiled grammars, transfers; tokens come from the trace.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from schedbench.errors import EngineEndsError
from schedbench.results.memory_log import MemoryRun
from schedbench.runner.events import of_rows
from schedbench.runner.golden_backend import PassReport, Scheduled
from schedbench.runner.record import Recorder
from schedbench.runner.remote_kv import RemoteStore
from schedbench.runner.replay import Progress, Replay
from schedbench.runner.run import ReplayOptions, make_arrivals, prepare, with_kv_role
from schedbench.runner.timers import Timers
from schedbench.runner.timing_rows import TimingRows
from schedbench.runner.trace_model import TraceModel
from schedbench.runner.vllm_backend import VllmBackend
from schedbench.runner.vllm_terms import Terms, flags_for, installed_release
from schedbench.runner.waits import WAIT_LABELS
from schedbench.runner.world import World
from schedbench.sched.scheduler import PauseState, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from schedbench.runner.api import Runner
    from schedbench.runner.golden_backend import Backend
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import EngineCoreOutputs, ModelRunnerOutput, SchedulerOutput
    from schedbench.sched.request import Request, RequestStatus
    from schedbench.sched.scheduler import CacheReset
    from schedbench.workloads.trace import Trace

Theirs = TypeVar("Theirs")
Ours = TypeVar("Ours")
Outcome = TypeVar("Outcome")

LAST_BLOCKS = 4  # of a table that goes on: as many are compared
KEPT_PASSES = 3  # passes whose verdicts are told with a difference


@dataclass
class Divergence(Exception):  # noqa: N818 - an outcome, not a fault of the caller
    """The first pass in which the two part: by column, what this project and vLLM decided."""

    index: int
    half: str  # schedule or update
    columns: dict[str, tuple[object, object]]
    state: dict[str, object] = field(default_factory=dict)  # before the pass
    led_there: list[str] = field(default_factory=list)  # how the passes before it ended


class LockstepScheduler(Scheduler):
    """This project's scheduler with another one beside it, held to the same decisions."""

    beside: Backend
    describe: Callable[[Request], dict[str, Any]]  # a request as the other one's driver takes it
    other_store: RemoteStore | None = None  # whose clock has to go with this one's

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        kwargs["counts_blocks"] = False  # ids are compared
        super().__init__(*args, **kwargs)
        self.num_compared = 0
        self._others: deque[tuple[int, Scheduled]] = deque()
        self._compiling: dict[str, Request] = {}
        self._by_itself = False  # inside a call that ends requests of its own accord
        self._recent: deque[str] = deque(maxlen=KEPT_PASSES)

    def pause(self, state: PauseState) -> None:
        super().pause(state)
        self.beside.set_pause_state(state.name)

    def add_request(self, request: Request) -> None:
        if request.grammar is not None:
            self._compiling[request.request_id] = request
        self._by_itself = True
        self._alike(
            "add_request",
            lambda: self.beside.add_request(self.describe(request)),
            partial(super().add_request, request),
        )
        self._by_itself = False

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        ids = list(request_ids)
        if not self._by_itself:
            self.beside.finish_requests([each for each in ids if each in self.requests])
        return super().finish_requests(ids, status)

    def reset_prefix_cache(self, *, preempt_running: bool = False) -> CacheReset:
        _, ours = self._alike(
            "reset_prefix_cache",
            lambda: self.beside.reset_prefix_cache(preempt=preempt_running),
            partial(super().reset_prefix_cache, preempt_running=preempt_running),
        )
        self.beside.take_evictions()
        return ours

    def update_draft_token_ids(self, drafts: Mapping[str, int]) -> None:
        self.beside.set_drafts(drafts)
        super().update_draft_token_ids(drafts)

    def schedule(self, *, throttle_prefills: bool = False) -> SchedulerOutput:
        self._tell_of_grammars()
        if self.other_store is not None:
            self.other_store.now_ns = self.now_ns
        state = self._state()
        theirs, ours = self._alike(
            "schedule",
            partial(self.beside.schedule, throttle_prefills=throttle_prefills),
            partial(super().schedule, throttle_prefills=throttle_prefills),
        )
        index = self.num_compared
        pairs = {
            "tokens": (list(ours.num_scheduled_tokens.items()), list(theirs.tokens.items())),
            "new": ([r.request_id for r in ours.scheduled_new_reqs], theirs.new),
            "resumed": ([r.request_id for r in ours.scheduled_resumed_reqs], theirs.resumed),
            "evicted": (
                [victim.request.request_id for victim in ours.victims],
                self.beside.take_evictions(),
            ),
            "drafts": (ours.scheduled_spec_decode_tokens, theirs.drafts),
            "encoder_inputs": (ours.scheduled_encoder_inputs, theirs.encoder_inputs),
            "queues": (self._queue_lengths(), self.beside.queue_lengths()),
            "free_blocks": (self.kv_cache.pool.num_free, self.beside.num_free_blocks()),
            "block_tables": self._tables(ours),
        }
        self._compare(index, "schedule", pairs, state)
        self._recent.append(
            f"pass {index}: running loop {ours.running_stop.label}, "
            f"admission {ours.admission_stop.label}"
        )
        self._others.append((index, theirs))
        self.num_compared += 1
        return ours

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> EngineCoreOutputs:
        index, scheduled = self._others.popleft()
        if self.other_store is not None and self.transfers is not None:
            self.other_store.now_ns = self.transfers.connector.now_ns  # type: ignore[attr-defined]
            self.other_store.report()  # what it would report is told by the trace's own store
        state = self._state()
        report = PassReport(model_runner_output.num_sampled_tokens)
        if (transfers := model_runner_output.kv_connector_output) is not None:
            report = PassReport(
                model_runner_output.num_sampled_tokens,
                loaded=transfers.finished_recving,
                sent=transfers.finished_sending,
                invalid_blocks=sorted(transfers.invalid_block_ids),
            )
        self._by_itself = True
        theirs, ours = self._alike(
            "update",
            partial(self.beside.update, scheduled, report),
            partial(super().update_from_output, scheduler_output, model_runner_output),
        )
        self._by_itself = False
        emitted = [
            (r.request_id, ours.num_new_tokens.get(r.request_id, 1), ours.reasons.get(r))
            for r in ours.emitted
        ] + [(r.request_id, 0, "error") for r in ours.errors]
        pairs = {
            "outputs": (
                emitted,
                [(each.request_id, each.num_tokens, each.finish_reason) for each in theirs],
            ),
            "queues": (self._queue_lengths(), self.beside.queue_lengths()),
            "free_blocks": (self.kv_cache.pool.num_free, self.beside.num_free_blocks()),
        }
        self._compare(index, "update", pairs, state)
        return ours

    def _alike(
        self, half: str, theirs: Callable[[], Theirs], ours: Callable[[], Ours]
    ) -> tuple[Theirs, Ours]:
        """Have both do the same; where one ends the engine, the other has to do so in that way.

        Raises:
            EngineEndsError: both end it.
            Divergence: one of them does, or in another way.
        """
        their_ending, found = _outcome(theirs)
        our_ending, mine = _outcome(ours)
        names = (_name(our_ending), _name(their_ending))
        if names[0] != names[1]:
            state = self._state()
            raise Divergence(self.num_compared, half, {"ends": names}, state, list(self._recent))
        if our_ending is not None:
            raise our_ending
        return found, mine  # type: ignore[return-value]

    def _tables(self, ours: SchedulerOutput) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Block tables of what was admitted, and of others what a pass can change of them."""
        admitted = {r.request_id for r in (*ours.scheduled_new_reqs, *ours.scheduled_resumed_reqs)}

        def shown(request_id: str, ids: list[int]) -> list[int]:
            return list(ids) if request_id in admitted else [len(ids), *ids[-LAST_BLOCKS:]]

        scheduled = ours.num_scheduled_tokens
        return (
            {each: shown(each, self.requests[each].block_ids) for each in scheduled},
            {each: shown(each, self.beside.block_ids(each)) for each in scheduled},
        )

    def _compare(
        self,
        index: int,
        half: str,
        pairs: dict[str, tuple[Any, Any]],
        state: dict[str, object],
    ) -> None:
        columns = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if columns:
            raise Divergence(index, half, columns, state, list(self._recent))

    def _tell_of_grammars(self) -> None:
        for request_id, request in list(self._compiling.items()):
            assert request.grammar is not None
            if request.grammar.ready or request.grammar.failed:
                del self._compiling[request_id]
                if request_id in self.requests:
                    self.beside.compile_grammar(request_id, failed=request.grammar.failed)

    def _queue_lengths(self) -> list[int]:
        queues = self.queues
        return [len(self.running), queues.num_waiting, queues.num_skipped_waiting]

    def _state(self) -> dict[str, object]:
        return {
            "running": [str(request) for request in self.running],
            "waiting": [str(request) for request in self.queues],
            "free_blocks": self.kv_cache.pool.num_free,
        }


def _outcome(act: Callable[[], Outcome]) -> tuple[EngineEndsError | None, Outcome | None]:
    """What came of a call: the ending it raised, or what it returned."""
    try:
        return None, act()
    except EngineEndsError as error:
        return error, None


def _name(ended: EngineEndsError | None) -> str | None:
    return None if ended is None else ended.ending


@dataclass(slots=True, eq=False)
class Asked:
    """A request as a store looks at it; its reports are the trace's own store's to give."""

    request_id: str
    num_tokens: int = 0
    is_finished: bool = True  # so that it names no blocks of what did not arrive


class StoreBeside:
    """A second remote store, told the same as the trace's own, for the real class to ask."""

    has_pending_block_frees = False

    def __init__(self, store: RemoteStore) -> None:
        self.store = store
        self._known: dict[str, Any] = {}  # a store knows a request again by identity
        self._matched = 0

    def _asked(self, request_id: str) -> Any:  # noqa: ANN401 - it stands for a request
        return self._known.setdefault(request_id, Asked(request_id))

    def matched_tokens(
        self, request_id: str, num_tokens: int, num_computed: int
    ) -> tuple[int | None, bool]:
        asked = self._asked(request_id)
        asked.num_tokens = num_tokens
        found = self.store.get_num_new_matched_tokens(asked, num_computed)
        self._matched = found[0] or 0
        return found

    def load_started(self, request_id: str) -> None:
        self.store.update_state_after_alloc(self._asked(request_id), self._matched)

    def request_finished(self, request_id: str) -> bool:
        return self.store.request_finished(self._known.pop(request_id, Asked(request_id)))


@dataclass(frozen=True)
class Lockstep:
    """What came of a comparison: passes that were equal, and the first that was not.

    `ending` is what both ended in, if their engine does not last.
    """

    num_passes: int
    divergence: Divergence | None
    vllm_version: str
    ending: EngineEndsError | None = None


def verify_trace(
    trace: Trace,
    config: SchedulerConfig,
    runner: Runner,
    options: ReplayOptions,
    progress: Progress | None = None,
) -> Lockstep:
    """Replay a trace through both schedulers, until it ends or they part.

    Raises:
        UnsupportedError: vLLM is not installed, or is of another release than the flags ask for.
    """
    version = installed_release(getattr(config, "vllm_version", "0.26.0"))
    config = with_kv_role(trace, config)
    prepared = prepare(trace, config, options)
    has_remote = config.kv_role is not None
    world = World(block_size=config.block_size, has_remote_kv=has_remote)
    store = StoreBeside(RemoteStore(Timers(), config.block_size))
    scheduler = LockstepScheduler(config, world.store)
    scheduler.beside = VllmBackend(flags_for(config, has_encoder=trace.has("encoder")), store)

    terms = Terms(trace)

    def describe(request: Request) -> dict[str, Any]:
        row = request.tag
        if row is not None and row.remote_kv is not None:
            store.store.add(request.request_id, row.remote_kv, row.added_ns)
        return terms.described(request)

    scheduler.describe = describe
    scheduler.other_store = store.store if has_remote else None
    sink = MemoryRun(WAIT_LABELS)
    runner.open(config)
    replaying = Replay(
        scheduler=scheduler,
        arrivals=make_arrivals(prepared, config, options, keep_ids=True),
        world=world,
        model=TraceModel(config.num_speculative_tokens, options.spec_acceptance, options.seed),
        runner=runner,
        recorder=Recorder(scheduler, sink.passes, sink.requests),
        timings=TimingRows(sink.timings),
        events=of_rows(options.events, prepared),
        progress=progress,
        short_way=False,
    )
    try:
        with closing(runner):
            replaying.run()
    except Divergence as parted:
        return Lockstep(scheduler.num_compared, parted, version)
    except EngineEndsError as ending:
        return Lockstep(scheduler.num_compared, None, version, ending)
    return Lockstep(scheduler.num_compared, None, version)
