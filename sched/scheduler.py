"""The scheduler: three writers (`add_request`, `schedule`, `update_from_output`), five collections.

    requests         every live request, by id
    running          a list; its order is the order of the running loop
    waiting          new and evicted requests
    skipped_waiting  requests that were set aside; looked at before `waiting` under fcfs
    (a pass's own queue of requests set aside lives in the admission loop)

A live request is in `requests` and in exactly one of the others, and its status says in which.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from schedbench.errors import UnsupportedError
from schedbench.sched import lora
from schedbench.sched.admission_loop import admit_waiting
from schedbench.sched.fold import fold
from schedbench.sched.kv_cache.manager import KVCacheManager
from schedbench.sched.output import Victim
from schedbench.sched.preemption import preempt
from schedbench.sched.request import RequestStatus
from schedbench.sched.request_queue import create_request_queue
from schedbench.sched.running_loop import schedule_running
from schedbench.sched.schedule_pass import SchedulePass
from schedbench.sched.verdicts import Verdict
from schedbench.sched.what_if import admissions_that_fit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import EngineCoreOutputs, ModelRunnerOutput, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import RequestQueue


class PauseState(Enum):
    """PAUSED_NEW admits nobody; PAUSED_ALL schedules nothing at all."""

    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2


class CacheReset(NamedTuple):
    """Whether the hashes are gone (not while blocks are held), and who was evicted for it."""

    done: bool
    victims: list[Victim]


class Scheduler:
    """vLLM 0.26.0's V1 scheduler, decision for decision."""

    def __init__(self, config: SchedulerConfig) -> None:
        if config.is_encoder_decoder:
            raise UnsupportedError(
                "encoder-decoder models are not modelled: their cross-attention blocks have "
                "rules of their own; leave out --is-encoder-decoder"
            )
        self.config = config
        self.requests: dict[str, Request] = {}
        self.running: list[Request] = []
        self.waiting: RequestQueue = create_request_queue(config.policy)
        self.skipped_waiting: RequestQueue = create_request_queue(config.policy)
        self.kv_cache = KVCacheManager(config)
        self.pause_state = PauseState.UNPAUSED
        self.prefill_capacity_bound = False  # the last admission loop left somebody waiting
        self.finished_req_ids: set[str] = set()  # since the last pass
        self.blocks_freed_preempt = 0
        self.blocks_freed_finish = 0

    def add_request(self, request: Request) -> None:
        """Take in a new request; nothing is checked or allocated before it is admitted."""
        self.requests[request.request_id] = request
        self.waiting.add_request(request)

    def schedule(self, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """First half of a pass: decide who computes how many tokens.

        With `throttle_prefills` prefill is put off as long as something decodes, unless the last
        admission loop left requests waiting (data-parallel balancing).
        """
        this_pass = self._start_pass(throttle_prefills=throttle_prefills)
        if self.pause_state is not PauseState.PAUSED_ALL:
            this_pass.running_stop = schedule_running(self, this_pass)
        lora.count_running(this_pass, self.config)
        this_pass.admission_stop = self._admit(this_pass)
        return self._close_pass(this_pass)

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> EngineCoreOutputs:
        """Second half of a pass: fold in what the model returned."""
        return fold(self, scheduler_output, model_runner_output)

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        """End requests from outside, in the given order; returns those that were alive."""
        found = [self.requests[request_id] for request_id in request_ids if request_id in self]
        self.remove_running({r for r in found if r.status is RequestStatus.RUNNING})
        queued = {r for r in found if r.status is not RequestStatus.RUNNING}
        if queued:
            self.waiting.remove_requests(queued)
            self.skipped_waiting.remove_requests(queued)
        for request in found:
            request.status = status
            self.free_request(request)
        return found

    def reset_prefix_cache(self, *, preempt_running: bool = False) -> CacheReset:
        """Forget all block hashes, first evicting whoever is running if told so.

        They are evicted last to first, so that they stand in `waiting` in their order.
        """
        victims = []
        while preempt_running and self.running:
            request = self.running.pop()
            victims.append(Victim(request, request.num_computed_tokens))
            preempt(self, request)
        return CacheReset(self.kv_cache.reset_prefix_cache(), victims)

    def next_queue(self) -> RequestQueue:
        """Choose the queue whose head is considered next; one of them is not empty.

        fcfs empties `skipped_waiting` first, so that a request once set aside overtakes older
        ones; priority compares the two heads.
        """
        if not (self.waiting and self.skipped_waiting):
            return self.waiting or self.skipped_waiting
        if self.config.policy == "fcfs":
            return self.skipped_waiting
        older = self.waiting.peek_request() < self.skipped_waiting.peek_request()
        return self.waiting if older else self.skipped_waiting

    def free_request(self, request: Request) -> None:
        """Let go of a finished request and its blocks; the collections are the caller's."""
        self.finished_req_ids.add(request.request_id)
        self.blocks_freed_finish += self.kv_cache.free(request)
        del self.requests[request.request_id]

    def remove_running(self, requests: set[Request]) -> None:
        """Take requests off the running list, all at once."""
        if requests:
            self.running = [request for request in self.running if request not in requests]

    def __contains__(self, request_id: str) -> bool:
        return request_id in self.requests

    def _start_pass(self, *, throttle_prefills: bool) -> SchedulePass:
        defer_prefills = (
            throttle_prefills
            and not self.prefill_capacity_bound
            and any(not request.is_prefill_chunk for request in self.running)
        )
        paused = self.pause_state is PauseState.PAUSED_ALL
        this_pass = SchedulePass(
            0 if paused else self.config.token_budget, defer_prefills=defer_prefills
        )
        if paused:
            this_pass.running_stop = Verdict.PAUSED_ALL
        return this_pass

    def _admit(self, this_pass: SchedulePass) -> Verdict:
        """Run the admission loop unless a pause or a preemption of this pass closes it."""
        if self.pause_state is PauseState.PAUSED_ALL:
            return Verdict.PAUSED_ALL
        if self.pause_state is PauseState.PAUSED_NEW:
            return Verdict.PAUSED_NEW
        if this_pass.victims:
            return Verdict.CLOSED_BY_PREEMPTION
        stop = admit_waiting(self, this_pass)
        if not this_pass.defer_prefills:
            self.prefill_capacity_bound = len(self.waiting) > 0
        return stop

    def _close_pass(self, this_pass: SchedulePass) -> SchedulerOutput:
        this_pass.check(num_running=len(self.running), max_num_seqs=self.config.max_num_seqs)
        cancelled = fit = 0
        if this_pass.admission_stop is Verdict.CLOSED_BY_PREEMPTION:
            queued = len(self.waiting) + len(self.skipped_waiting)
            cancelled = queued - len(this_pass.victims)
            fit = admissions_that_fit(self, this_pass) if cancelled else 0
        for request_id, num_new_tokens in this_pass.num_scheduled_tokens.items():
            request = self.requests[request_id]
            request.num_computed_tokens += num_new_tokens
            request.is_prefill_chunk = request.num_computed_tokens < request.num_tokens
        finished, self.finished_req_ids = self.finished_req_ids, set()
        return this_pass.close(finished, cancelled, fit)
