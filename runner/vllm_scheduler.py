"""The installed vLLM's own class in the place of this project's scheduler, for one replay.

The class decides; what it holds of each request is copied to a request of this project, so that
the replay, its store of remote KV and the recorder find there what they look for. Why a loop ended
it does not say: a `SchedulerOutput` made here holds stand-ins there, which are stored as nulls.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from schedbench.errors import UsageError
from schedbench.runner.golden_backend import PassReport, Scheduled
from schedbench.runner.vllm_backend import VllmBackend
from schedbench.runner.vllm_terms import Terms, flags_for
from schedbench.sched.output import EngineCoreOutputs, PrefillGrant, SchedulerOutput, Victim
from schedbench.sched.pause import PauseState
from schedbench.sched.request import RequestStatus
from schedbench.sched.scheduler import CacheReset
from schedbench.sched.verdicts import Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from schedbench.runner.golden_backend import Emission
    from schedbench.runner.remote_kv import RemoteStore
    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import ModelRunnerOutput
    from schedbench.sched.request import Request
    from schedbench.workloads.trace import Trace


def refuse_what_it_cannot(
    config: SchedulerConfig, options: ReplayOptions, *, needs_block_ids: bool
) -> None:
    """Raises UsageError for options that vLLM's own class has no part in."""
    if options.policy_class is not None:
        raise UsageError(
            "--scheduler vllm and --policy-class: vLLM's own class takes no policy; give one"
        )
    if options.outputs is not None or options.request_events is not None:
        raise UsageError(
            "--scheduler vllm writes no --outputs and no --request-events: they are this project's "
            "own; the decisions are the same without --scheduler"
        )
    if config.behaviours:
        raise UsageError(
            f"--scheduler vllm decides as its release does, and --behaviour {config.behaviours} "
            "asks for a mixture: leave one out"
        )
    if needs_block_ids:
        raise UsageError(
            "--scheduler vllm runs no forward passes: take a model of time (--gpu, --profile or "
            "--cost)"
        )


class VllmScheduler:
    """As much of `Scheduler` as a replay asks for, over vLLM's own class. Times in ns.

    Raises:
        UnsupportedError: the trace holds what the class cannot be told, or the class fails in a
            way that has no name.
        EngineEndsError: it fails in one that has.
    """

    def __init__(self, config: SchedulerConfig, store: RemoteStore | None, trace: Trace) -> None:
        self.config = config
        self.now_ns = 0
        self.requests: dict[str, Request] = {}
        self.pause_state = PauseState.UNPAUSED
        self.has_sessions = False
        self.transfers = store  # asked only whether there is one
        self.blocks_freed_finish = 0
        self._terms = Terms(trace)
        flags = flags_for(config, has_encoder=trace.has("encoder"))
        self._backend = VllmBackend(flags, _Store(store, self.requests))
        self.queues = _Queues(self)
        self.kv_cache = SimpleNamespace(pool=_Pool(config, self._backend))
        self._real: dict[str, Any] = {}  # vLLM's requests, for as long as they live
        self._scheduled: deque[Scheduled] = deque()
        self._compiling: dict[str, Request] = {}
        self._reset_victims: list[Victim] = []  # since the last pass

    @property
    def running(self) -> list[Request]:
        return [self.requests[real.request_id] for real in self._backend.running]

    @property
    def num_waiting_for_streaming_input(self) -> int:
        return self._backend.num_waiting_for_streaming_input

    @property
    def blocks_freed_preempt(self) -> int:
        return self._backend.blocks_freed_preempt

    def pause(self, state: PauseState) -> None:
        self.pause_state = state
        self._backend.set_pause_state(state.name)

    def add_request(self, request: Request) -> None:
        request_id = request.request_id
        told = self._terms.described(request)
        if request_id not in self.requests:
            self.requests[request_id] = request
            self.has_sessions |= request.resumable
            if request.grammar is not None:
                self._compiling[request_id] = request
        with self._frees():
            self._backend.add_request(told)
        if request_id not in self._real:
            self._real[request_id] = self._backend.requests[request_id]
        self._follow([request_id])
        self._forget()

    def schedule(self, *, throttle_prefills: bool = False) -> SchedulerOutput:
        self._tell_of_grammars()
        scheduled = self._backend.schedule(throttle_prefills=throttle_prefills)
        self._scheduled.append(scheduled)
        output = self._output(scheduled)
        self._follow(scheduled.tokens)
        self._follow(victim.request.request_id for victim in output.victims)
        if self.transfers is not None:
            self.follow_blocks(self.requests)
        return output

    def update_from_output(
        self, _output: SchedulerOutput, model_output: ModelRunnerOutput
    ) -> EngineCoreOutputs:
        scheduled = self._scheduled.popleft()
        report = self._report(model_output)
        waiting = {
            request_id
            for request_id in scheduled.tokens
            if self._status(request_id) is not RequestStatus.RUNNING
        }
        with self._frees():
            emissions = self._backend.update(scheduled, report)
        self._follow(each.request_id for each in emissions)
        outputs = self._outputs(emissions, waiting)
        self._forget()
        return outputs

    def update_draft_token_ids(self, drafts: Mapping[str, int]) -> None:
        self._backend.set_drafts(drafts)

    def finish_requests(self, request_ids: Iterable[str], _status: RequestStatus) -> list[Request]:
        """Abort requests; returns those that were alive."""
        alive = [
            request
            for request_id in request_ids
            if (request := self.requests.get(request_id)) and not request.is_finished
        ]
        ids = [request.request_id for request in alive]
        with self._frees():
            self._backend.finish_requests(ids)
        self._follow(ids)
        self._forget()
        return alive

    def reset_prefix_cache(self, *, preempt_running: bool = False) -> CacheReset:
        self._backend.take_victims()
        self._backend.reset_prefix_cache(preempt=preempt_running)
        victims = self._victims()
        self._reset_victims += victims
        self._follow(victim.request.request_id for victim in victims)
        return CacheReset(self.kv_cache.pool.num_cached == 0, victims)

    def follow_blocks(self, request_ids: Iterable[str]) -> None:
        """Copy the block tables of requests."""
        for request_id in request_ids:
            self.requests[request_id].block_ids = self._backend.block_ids(request_id)

    def queued(self) -> list[Request]:
        """Requests in the queues, with their blocks."""
        ids = [real.request_id for real in self._backend.queued()]
        self.follow_blocks(ids)
        return [self.requests[request_id] for request_id in ids]

    def _status(self, request_id: str) -> RequestStatus | None:
        real = self._real.get(request_id)
        return None if real is None else RequestStatus[real.status.name]

    def _follow(self, request_ids: Iterable[str]) -> None:
        """Copy what vLLM's requests say of themselves."""
        for request_id in request_ids:
            request, real = self.requests[request_id], self._real[request_id]
            request.status = RequestStatus[real.status.name]
            request.num_tokens = real.num_tokens
            request.num_prompt_tokens = real.num_prompt_tokens
            request.output_start = real.num_tokens - real.num_output_tokens
            request.num_computed_tokens = real.num_computed_tokens
            request.is_prefill_chunk = real.is_prefill_chunk

    def _forget(self) -> None:
        """Let go of requests that vLLM has let go of."""
        theirs = self._backend.requests
        if len(theirs) == len(self.requests):
            return
        for request_id in [each for each in self.requests if each not in theirs]:
            self._follow([request_id])
            for known in (self.requests, self._real):
                del known[request_id]
            self._compiling.pop(request_id, None)

    @contextmanager
    def _frees(self) -> Iterator[None]:
        """Count the blocks that become free because requests end."""
        before, preempt = self._backend.num_free_blocks(), self.blocks_freed_preempt
        yield
        freed = self._backend.num_free_blocks() - before
        self.blocks_freed_finish += freed - (self.blocks_freed_preempt - preempt)

    def _tell_of_grammars(self) -> None:
        for request_id, request in list(self._compiling.items()):
            assert request.grammar is not None
            if request.grammar.ready or request.grammar.failed:
                del self._compiling[request_id]
                self._backend.compile_grammar(request_id, failed=request.grammar.failed)

    def _victims(self) -> list[Victim]:
        return [
            Victim(self.requests[request_id], num_computed_tokens)
            for request_id, num_computed_tokens in self._backend.take_victims()
        ]

    def _output(self, scheduled: Scheduled) -> SchedulerOutput:
        """What the class decided, in this project's terms; verdicts are stand-ins."""
        victims = self._victims()
        reset_victims, self._reset_victims = self._reset_victims, []
        grants = self._prefills(scheduled)
        continued = {*scheduled.new, *scheduled.resumed}
        theirs = scheduled.output
        return SchedulerOutput(
            num_scheduled_tokens=scheduled.tokens,
            scheduled_new_reqs=[self.requests[each] for each in scheduled.new],
            scheduled_resumed_reqs=[self.requests[each] for each in scheduled.resumed],
            scheduled_running_reqs=[
                self.requests[each] for each in scheduled.tokens if each not in continued
            ],
            scheduled_spec_decode_tokens=scheduled.drafts,
            scheduled_encoder_inputs=scheduled.encoder_inputs,
            new_block_ids={},
            free_encoder_mm_hashes=scheduled.encoder_freed,
            finished_req_ids=set(theirs.finished_req_ids),
            token_budget=self._backend.token_budget,
            num_put_aside=0,
            prefills=grants,
            decode_tokens=len(scheduled.tokens) - len(grants),
            context_tokens=sum(scheduled.computed.values()),
            victims=victims,
            reset_victims=reset_victims,
            set_aside=[],
            lookups=self._backend.take_lookups(),
            running_stop=Verdict.LIST_DONE,
            admission_stop=Verdict.QUEUES_EMPTY,
            binding_limit=Limit.NOTHING,
            admissions_cancelled=self._cancelled(victims),
            admissions_cancelled_fit=0,
            budget_stranded=0,
        )

    def _prefills(self, scheduled: Scheduled) -> list[PrefillGrant]:
        """Grants but for decodes; what a request's last pass left of its prompt is known still."""
        admitted = {*scheduled.new, *scheduled.resumed}
        grants = []
        for request_id, num_tokens in scheduled.tokens.items():
            request = self.requests[request_id]
            num_known = max(num_tokens - scheduled.drafts.get(request_id, 0), 1)
            if request_id in admitted or request.is_prefill_chunk or num_known > 1:
                grants.append(PrefillGrant(request, scheduled.computed[request_id], num_known))
        return grants

    def _cancelled(self, victims: list[Victim]) -> int:
        """Requests left in the queues because a preemption closed the admission loop."""
        goes_on = self.config.behaviour.pause_holders
        paused = self.pause_state is PauseState.PAUSED_ALL or (
            self.pause_state is PauseState.PAUSED_NEW and not goes_on
        )
        return len(self.queues) - len(victims) if victims and not paused else 0

    def _report(self, model_output: ModelRunnerOutput) -> PassReport:
        sampled = model_output.num_sampled_tokens
        transfers = model_output.kv_connector_output
        if transfers is None:
            return PassReport(sampled)
        return PassReport(
            sampled,
            loaded=transfers.finished_recving,
            sent=transfers.finished_sending,
            invalid_blocks=sorted(transfers.invalid_block_ids),
        )

    def _outputs(self, emissions: list[Emission], waiting: set[str]) -> EngineCoreOutputs:
        outputs = EngineCoreOutputs()
        for each in emissions:
            request, reason = self.requests[each.request_id], each.finish_reason
            if each.num_tokens == 0 and reason == "error":
                outputs.errors.append(request)
                continue
            outputs.emitted.append(request)
            if each.num_tokens != 1:
                outputs.num_new_tokens[each.request_id] = each.num_tokens
            if reason is None:
                continue
            outputs.reasons[request] = reason
            if request.is_finished:
                outputs.finished.append((request, reason))
            else:
                outputs.segments_done.append(request)
            if each.request_id in waiting:
                outputs.stopped_waiting.append(request)
        outputs.finished += [(request, "error") for request in outputs.errors]
        return outputs


class _Store:
    """The trace's store of remote KV, as vLLM's connector asks it."""

    has_pending_block_frees = False

    def __init__(self, store: RemoteStore | None, requests: Mapping[str, Request]) -> None:
        self._store = store
        self._requests = requests
        self._num_external = 0

    def matched_tokens(
        self, request_id: str, num_tokens: int, num_computed: int
    ) -> tuple[int | None, bool]:
        assert self._store is not None
        request = self._requests[request_id]
        request.num_tokens = num_tokens
        found = self._store.get_num_new_matched_tokens(request, num_computed)
        self._num_external = found[0] or 0
        return found

    def load_started(self, request_id: str) -> None:
        assert self._store is not None
        self._store.update_state_after_alloc(self._requests[request_id], self._num_external)

    def request_finished(self, request_id: str) -> bool:
        assert self._store is not None
        return self._store.request_finished(self._requests[request_id])


class _Pool:
    """vLLM's block pool, counted."""

    def __init__(self, config: SchedulerConfig, backend: VllmBackend) -> None:
        self.num_gpu_blocks = config.num_gpu_blocks
        self._caches = config.enable_prefix_caching
        self._backend = backend

    @property
    def num_free(self) -> int:
        return self._backend.num_free_blocks()

    @property
    def num_cached(self) -> int:
        return self._backend.num_cached_blocks() if self._caches else 0


class _Queues:
    """vLLM's queues, counted; their members come with their blocks."""

    def __init__(self, scheduler: VllmScheduler) -> None:
        self._scheduler = scheduler
        self._backend = scheduler._backend  # noqa: SLF001 - of one module

    @property
    def num_waiting(self) -> int:
        return self._backend.queue_lengths()[1]

    @property
    def num_skipped_waiting(self) -> int:
        return self._backend.queue_lengths()[2]

    @property
    def num_holding_kv(self) -> int:
        return self._backend.num_holding_kv

    def head(self) -> Request:
        return self._scheduler.queued()[0]

    def __len__(self) -> int:
        _, waiting, skipped = self._backend.queue_lengths()
        return waiting + skipped

    def __iter__(self) -> Iterator[Request]:
        return iter(self._scheduler.queued())
