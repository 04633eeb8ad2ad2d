"""Drives this project's own scheduler through a golden scenario."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from schedbench.errors import UnsupportedError
from schedbench.runner.golden_backend import Emission, QueueContents, Scheduled
from schedbench.runner.golden_identity import SegmentHasher, SegmentIdentity
from schedbench.sched.behaviours import RELEASES
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.kv_connector import KVConnectorOutput
from schedbench.sched.one_queue import OneQueue
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.request import EncoderInput, Grammar, Request, RequestStatus
from schedbench.sched.scheduler import PauseState, Scheduler
from schedbench.sched.skipped_first import SkippedFirst
from schedbench.sched.spec_decode import set_drafts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from schedbench.runner.golden_backend import PassReport, Row, StoreClient
    from schedbench.runner.golden_log import GoldenLog

CONFIG_FIELDS = tuple(
    field.name
    for field in fields(SchedulerConfig)
    if field.name not in ("behaviours", "kv_role", "max_num_encoder_input_tokens", "vllm_version")
)


def version_of(log: GoldenLog) -> str:
    """The release whose class wrote the log; the first ones do not say."""
    return str(log.header.get("vllm_version", "0.26.0"))


def unsupported_features(log: GoldenLog) -> list[str]:
    """Name what a scenario needs and this scheduler does not have."""
    version = version_of(log)
    return [] if version in RELEASES else [f"vLLM {version}"]


def config_of(log: GoldenLog, behaviours: str = "") -> SchedulerConfig:
    """Build the configuration of a golden header; the driver sees to passes in flight.

    `behaviours` makes a mixture of it.
    """
    flags = log.config
    return SchedulerConfig(
        vllm_version=version_of(log),
        behaviours=behaviours,
        **{name: flags[name] for name in CONFIG_FIELDS if name in flags},
        max_num_encoder_input_tokens=flags["encoder_budget"],
        kv_role=flags.get("kv_role", "kv_both") if flags["kv_connector"] else None,
    )


class StoreAsConnector:
    """The scenario's remote store as a connector of this scheduler."""

    def __init__(self, store: StoreClient, *, requires_kv_delivery: bool | None) -> None:
        self._store = store
        self.requires_kv_delivery = requires_kv_delivery

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        return self._store.matched_tokens(
            request.request_id, request.num_tokens, num_computed_tokens
        )

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        if num_external_tokens:
            self._store.load_started(request.request_id)

    def request_finished(self, request: Request) -> bool:
        return self._store.request_finished(request.request_id)

    def has_pending_block_frees(self) -> bool:
        return self._store.has_pending_block_frees


class SchedBackend:
    """`golden_backend.Backend` over `schedbench.sched.scheduler.Scheduler`."""

    def __init__(self, log: GoldenLog, store: StoreClient, behaviours: str = "") -> None:
        if missing := unsupported_features(log):
            raise UnsupportedError(f"{log.header['name']} needs {', '.join(missing)}")
        self.config = config_of(log, behaviours)
        delivery = log.config.get("drop_preempted_output")
        connector = StoreAsConnector(store, requires_kv_delivery=delivery)
        self.scheduler = Scheduler(self.config, connector if self.config.kv_role else None)
        self.token_budget = self.config.token_budget
        self._hasher = SegmentHasher(
            self.config.block_size,
            self.config.hash_lookahead_tokens,
            sees_all_items=self.config.behaviour.hash_content,
        )
        self._grammars: dict[str, Grammar] = {}
        self._lookups: dict[str, int] = {}
        self._evicted: list[str] = []

    def add_request(self, request: Row) -> None:
        request_id = request["id"]
        items = tuple(
            EncoderInput(item["offset"], item["length"], item["length"], item["hash"])
            for item in request.get("mm", ())
        )
        grammar = None
        if "grammar" in request:
            grammar = Grammar(tokens_left=request["grammar"].get("reject_after"))
            self._grammars[request_id] = grammar
        root = (request.get("lora"), request.get("cache_salt"))
        self.scheduler.add_request(
            Request(
                request_id,
                num_prompt_tokens=sum(length for _, length in request["prompt"]),
                max_tokens=request["max_tokens"],
                min_tokens=request.get("min_tokens", 0),
                eos_after=request.get("eos_after"),
                arrival_time=request["arrival"],
                identity=SegmentIdentity(self._hasher, request_id, request["prompt"], items, root),
                priority=request.get("priority", 0),
                lora_id=request.get("lora") or 0,
                encoder_inputs=items,
                grammar=grammar,
                resumable=bool(request.get("resumable")),
            )
        )

    def schedule(self, *, throttle_prefills: bool) -> Scheduled:
        output = self.scheduler.schedule(throttle_prefills=throttle_prefills)
        self.token_budget = output.token_budget
        self._lookups.update(output.lookups)
        self._evicted.extend(victim.request.request_id for victim in output.victims)
        requests = self.scheduler.requests
        return Scheduled(
            output=output,
            tokens=output.num_scheduled_tokens,
            new=[request.request_id for request in output.scheduled_new_reqs],
            resumed=[request.request_id for request in output.scheduled_resumed_reqs],
            computed={
                request_id: requests[request_id].num_computed_tokens - num_new_tokens
                for request_id, num_new_tokens in output.num_scheduled_tokens.items()
            },
            drafts=output.scheduled_spec_decode_tokens,
            encoder_inputs=output.scheduled_encoder_inputs,
            encoder_freed=output.free_encoder_mm_hashes,
            sampling=[
                request_id
                for request_id in output.num_scheduled_tokens
                if not requests[request_id].is_prefill_chunk
            ],
        )

    def update(self, scheduled: Scheduled, report: PassReport) -> list[Emission]:
        transfers = KVConnectorOutput(
            tuple(report.loaded),
            tuple(report.sent),
            frozenset(report.invalid_blocks),
            tuple(report.failed_loads),
        )
        outputs = self.scheduler.update_from_output(
            scheduled.output, ModelRunnerOutput(report.sampled, transfers)
        )
        emitted = [
            Emission(
                request.request_id,
                outputs.num_new_tokens.get(request.request_id, 1),
                outputs.reasons.get(request),
            )
            for request in outputs.emitted
        ]
        return emitted + [Emission(request.request_id, 0, "error") for request in outputs.errors]

    def set_drafts(self, drafts: Mapping[str, int]) -> None:
        set_drafts(self.scheduler, drafts)

    def compile_grammar(self, request_id: str, *, failed: bool) -> None:
        grammar = self._grammars[request_id]
        grammar.failed, grammar.ready = failed, not failed

    def finish_requests(self, request_ids: Sequence[str]) -> None:
        self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)

    def set_pause_state(self, state: str) -> None:
        self.scheduler.pause_state = PauseState[state]

    def reset_prefix_cache(self, *, preempt: bool) -> None:
        reset = self.scheduler.reset_prefix_cache(preempt_running=preempt)
        self._evicted.extend(victim.request.request_id for victim in reset.victims)

    def take_lookups(self) -> dict[str, int]:
        taken, self._lookups = self._lookups, {}
        return taken

    def take_evictions(self) -> list[str]:
        taken, self._evicted = self._evicted, []
        return taken

    def is_live(self, request_id: str) -> bool:
        request = self.scheduler.requests.get(request_id)
        return request is not None and not request.is_finished

    def num_unfinished(self) -> int:
        return len(self.scheduler.requests) - self.scheduler.num_waiting_for_streaming_input

    def has_finished_to_report(self) -> bool:
        return bool(self.scheduler.finished_req_ids)

    def num_waiting(self) -> int:
        return len(self.scheduler.queues.waiting)

    def queue_lengths(self) -> list[int]:
        queues = self.scheduler.queues
        return [len(self.scheduler.running), queues.num_waiting, queues.num_skipped_waiting]

    def queue_contents(self) -> QueueContents:
        queues = self.scheduler.queues
        waiting = [request.request_id for request in queues.waiting]
        if isinstance(queues, SkippedFirst):
            return QueueContents(waiting, _with_status(queues.skipped_waiting))
        assert isinstance(queues, OneQueue)
        deferred = [request for request in queues if request in queues.deferred_waiting]
        holding = _with_status(queues.kv_holding_waiting)
        return QueueContents(waiting, _with_status(deferred), holding)

    def num_free_blocks(self) -> int:
        return self.scheduler.kv_cache.pool.num_free

    def num_cached_blocks(self) -> int:
        return self.scheduler.kv_cache.pool.num_cached

    def free_queue(self) -> list[int]:
        return list(self.scheduler.kv_cache.pool.free_queue)

    def block_ids(self, request_id: str) -> list[int]:
        request = self.scheduler.requests.get(request_id)
        return request.block_ids if request else []


def _with_status(requests: Iterable[Request]) -> list[list[str]]:
    return [[request.request_id, request.status.name] for request in requests]
