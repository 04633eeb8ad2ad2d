"""The scheduler: three writers (`add_request`, `schedule`, `update_from_output`), five collections.

    requests         every live request, by id
    running          a list; its order is the order of the running loop
    queues           everybody else (waiting_queues.py)
    in_flight        passes that are scheduled and not folded in, oldest first

A live request is in `requests` and in exactly one of the others, and its status says in which.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from schedbench.errors import UnsupportedError
from schedbench.sched import (
    async_mode,
    kv_connector,
    lora,
    spec_decode,
    stale_output,
    streaming,
    token_demand,
)
from schedbench.sched.admission_loop import admit_waiting
from schedbench.sched.encoder_cache import EncoderCache
from schedbench.sched.endings import Ending, ends
from schedbench.sched.fold import fold
from schedbench.sched.kv_cache.manager import KVCacheManager
from schedbench.sched.output import Victim
from schedbench.sched.pause import PauseState
from schedbench.sched.policy import Policy, State, overridden, policy_budget
from schedbench.sched.preemption import preempt
from schedbench.sched.prefill_interval import PrefillInterval
from schedbench.sched.request import RequestStatus
from schedbench.sched.running_loop import schedule_running
from schedbench.sched.schedule_pass import SchedulePass
from schedbench.sched.verdicts import Verdict
from schedbench.sched.waiting_queues import create_waiting_queues
from schedbench.sched.what_if import admissions_that_fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.kv_connector import KVConnector, TransferState
    from schedbench.sched.output import EngineCoreOutputs, ModelRunnerOutput, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import WaitingKey
    from schedbench.sched.return_path import ReturnPath

__all__ = ["CacheReset", "PauseState", "Scheduler"]


class CacheReset(NamedTuple):
    """Whether the hashes are gone (not while blocks are held), and who was evicted for it."""

    done: bool
    victims: list[Victim]


class Scheduler:
    """vLLM's V1 scheduler, decision for decision; `config.vllm_version` says which release."""

    def __init__(
        self,
        config: SchedulerConfig,
        connector: KVConnector | None = None,
        policy: Policy | None = None,
        return_path: ReturnPath | None = None,
        *,
        counts_blocks: bool = False,
    ) -> None:
        """Set up an empty engine.

        Args:
            config: the flags.
            connector: where KV may be held elsewhere.
            policy: decisions other than vLLM's.
            return_path: collects what leaves the engine, if anybody listens.
            counts_blocks: keep no block ids, every one is 0; only where no one asks which block is
                which. The decisions are the same.
        """
        if config.is_encoder_decoder:
            raise UnsupportedError(
                "encoder-decoder models are not modelled: their cross-attention blocks have "
                "rules of their own; leave out --is-encoder-decoder"
            )
        self.config = config
        self.policy = policy or Policy()
        self.hooks = overridden(self.policy)  # the decisions that are not vLLM's
        self.return_path = return_path
        self.now_ns = 0  # set by whoever keeps the clock; read by policies and for events
        self.requests: dict[str, Request] = {}
        self.running: list[Request] = []
        self.queues = create_waiting_queues(config, self.waiting_key())
        self.in_flight: deque[SchedulerOutput] = deque()
        self.kv_cache = KVCacheManager(config, numbered=not counts_blocks)
        self.encoder_cache = EncoderCache(config.encoder_cache_embeds, config.behaviour)
        self.transfers: TransferState | None = None
        if connector is not None:
            self.transfers = kv_connector.new_transfers(connector, config)
        self.settle = async_mode.settler(config)
        self.pause_state = PauseState.UNPAUSED
        self.prefill_interval = PrefillInterval(config.prefill_interval)
        self.prefill_capacity_bound = False  # the last admission loop left somebody waiting
        self.num_waiting_for_streaming_input = 0
        self.has_sessions = False  # whether a streaming session was ever added
        self.request_errors: set[str] = set()  # ids that the next fold ends with an error
        self.finished_req_ids: set[str] = set()  # since the last pass
        self.reset_victims: list[Victim] = []  # likewise, preempted by cache resets
        self.blocks_freed_preempt = 0
        self.blocks_freed_finish = 0

    def add_request(self, request: Request) -> None:
        """Take in a new request, or the next input of a live session of the same id.

        Nothing is checked or allocated before the request is admitted.
        """
        session = self.requests.get(request.request_id)
        if session is not None:
            streaming.continue_session(self, session, streaming.update_of(request))
            return
        if request.resumable:
            streaming.start_session(self, request)
        self.queues.add(request)
        self.requests[request.request_id] = request
        if self.return_path is not None:
            self.return_path.event(request, "QUEUED", self.now_ns)

    def schedule(self, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """First half of a pass: decide who computes how many tokens.

        With `throttle_prefills` prefill is put off as long as something decodes, unless the last
        admission loop left requests waiting (data-parallel balancing).
        """
        this_pass = self.start_pass(throttle_prefills=throttle_prefills)
        if self.pause_state is not PauseState.PAUSED_ALL:
            this_pass.running_stop = schedule_running(self, this_pass)
        lora.count_running(self, this_pass)
        this_pass.admission_stop = self.admit(this_pass)
        return self.close_pass(this_pass)

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> EngineCoreOutputs:
        """Second half of a pass: fold in what the model returned."""
        return fold(self, scheduler_output, model_runner_output)

    def update_draft_token_ids(self, drafts: Mapping[str, int]) -> None:
        """Note how many drafts were proposed for each request after a pass."""
        spec_decode.set_drafts(self, drafts)

    def pause(self, state: PauseState) -> None:
        """Pause, or go on."""
        self.pause_state = state

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        """End requests from outside, in the given order; returns those that were alive.

        vLLM walks a set of ids, so that its order changes with the hash seed.
        """
        found = [
            request
            for request_id in request_ids
            if (request := self.requests.get(request_id)) and not request.is_finished
        ]
        self.remove_running({r for r in found if r.status is RequestStatus.RUNNING})
        if queued := {r for r in found if r.status is not RequestStatus.RUNNING}:
            self.queues.remove(queued)
        for request in found:
            self._finish(request, status)
        return found

    def reset_prefix_cache(self, *, preempt_running: bool = False) -> CacheReset:
        """Forget all block hashes, first evicting whoever is running if told so.

        They are evicted last to first, so that they stand in `waiting` in their order. What a
        pass in flight brings for them is stale and will be dropped.

        Raises:
            EngineEndsError: blocks are held by others, so that evicting was in vain.
        """
        victims = []
        while preempt_running and self.running:
            request = self.running.pop()
            victims.append(Victim(request, request.num_computed_tokens))
            num_placeholders = request.num_output_placeholders
            preempt(self, request)
            stale_output.at_reset(self, request, num_placeholders)
        self.reset_victims += victims
        done = self.kv_cache.reset_prefix_cache()
        if preempt_running and not done:
            raise ends(Ending.RESET_FAILED, self.config)
        return CacheReset(done, victims)

    def free_request(self, request: Request, *, keep_blocks: bool = False) -> None:
        """Let go of a finished request; the running list and the queues are the caller's.

        Its blocks stay while a load still writes them or a connector sends them.
        """
        if self.transfers is not None:
            self.transfers.unfinished_prefills.discard(request)
            keep_blocks |= self.transfers.connector.request_finished(request)
        if request.encoder_inputs:
            self.encoder_cache.free(request)
        self.finished_req_ids.add(request.request_id)
        if self.return_path is not None:
            self.return_path.request_finished(request)
        if not keep_blocks:
            self.free_blocks_and_forget(request)

    def free_blocks_and_forget(self, request: Request) -> None:
        self.blocks_freed_finish += kv_connector.free_or_defer(self, request)
        del self.requests[request.request_id]

    def remove_running(self, requests: set[Request]) -> None:
        """Take requests off the running list, all at once."""
        if requests:
            self.running = [request for request in self.running if request not in requests]

    def _finish(self, request: Request, status: RequestStatus) -> None:
        keep_blocks = False
        if request.status is RequestStatus.WAITING_FOR_STREAMING_REQ:
            self.num_waiting_for_streaming_input -= 1
        elif request.status is RequestStatus.WAITING_FOR_REMOTE_KVS:
            assert self.transfers is not None
            keep_blocks = request.request_id not in self.transfers.loaded
            self.transfers.loaded.discard(request.request_id)
            self.transfers.failed.discard(request.request_id)
        request.status = status
        self.free_request(request, keep_blocks=keep_blocks)

    def start_pass(self, *, throttle_prefills: bool) -> SchedulePass:
        """Open a pass with its budgets, and settle whether it holds prefill back."""
        defer_prefills = (
            (throttle_prefills or self.prefill_interval.holds)
            and not self.prefill_capacity_bound
            and any(not request.is_prefill_chunk for request in self.running)
        )
        paused = self.pause_state is PauseState.PAUSED_ALL
        this_pass = SchedulePass(
            0 if paused else self._token_budget(),
            self.config.encoder_budget,
            threshold=token_demand.threshold_of_pass(
                self.config, len(self.running) + len(self.queues)
            ),
            reach=self.config.several_mtp_modules,
            defer_prefills=defer_prefills,
            input_budget=self.config.input_budget,
            draft_rows=self.config.draft_rows,
        )
        if paused:
            this_pass.running_stop = Verdict.PAUSED_ALL
        return this_pass

    def _token_budget(self) -> int:
        if "pass_budget" in self.hooks:
            return policy_budget(self)
        return self.config.token_budget

    def waiting_key(self) -> WaitingKey | None:
        """The policy's order of the queue; None where it leaves that alone."""
        if "waiting_key" not in self.hooks:
            return None
        return lambda request: self.policy.waiting_key(request, State(self))

    def admit(self, this_pass: SchedulePass) -> Verdict:
        """Run the admission loop unless a pause or a preemption of this pass closes it."""
        if self.pause_state is PauseState.PAUSED_ALL:
            return Verdict.PAUSED_ALL
        holders_go_on = self.config.behaviour.pause_holders
        if self.pause_state is PauseState.PAUSED_NEW and not holders_go_on:
            return Verdict.PAUSED_NEW
        if this_pass.victims:
            return Verdict.CLOSED_BY_PREEMPTION
        stop = admit_waiting(self, this_pass)
        if not this_pass.defer_prefills:
            self.prefill_capacity_bound = self.queues.num_waiting > 0
        return stop

    def close_pass(self, this_pass: SchedulePass) -> SchedulerOutput:
        """Check a pass, count its tokens as computed, and hand it over."""
        this_pass.check(num_running=len(self.running), max_num_seqs=self.config.max_num_seqs)
        if this_pass.grants_below_0 and min(this_pass.num_scheduled_tokens.values(), default=1) < 0:
            raise ends(Ending.NEGATIVE_GRANT, self.config)
        cancelled = fit = 0
        if this_pass.admission_stop is Verdict.CLOSED_BY_PREEMPTION:
            cancelled = len(self.queues) - len(this_pass.victims)
            fit = admissions_that_fit(self, this_pass) if cancelled else 0
        self._advance(this_pass)
        self.prefill_interval.pass_is_scheduled(this_pass)
        finished, self.finished_req_ids = self.finished_req_ids, set()
        freed = self.encoder_cache.take_freed()
        reset_victims, self.reset_victims = self.reset_victims, []
        output = this_pass.close(finished, freed, cancelled, fit, reset_victims)
        self.in_flight.append(output)
        if self.return_path is not None:
            self.return_path.scheduled(output, self.now_ns)
        return output

    def _advance(self, this_pass: SchedulePass) -> None:
        """Count the scheduled tokens as computed, so that the next pass can be scheduled."""
        if self.transfers is not None:
            kv_connector.pass_is_scheduled(self, self.transfers, this_pass)
        for request_id, num_new_tokens in this_pass.num_scheduled_tokens.items():
            request = self.requests[request_id]
            request.num_computed_tokens += num_new_tokens
            request.is_prefill_chunk = (
                request.num_computed_tokens < request.num_tokens + request.num_output_placeholders
            )
        if self.transfers is not None:
            kv_connector.prefills_end(self, self.transfers, this_pass)
        if self.config.runs_ahead:
            async_mode.add_placeholders(self, this_pass)
