"""Drives this project's own scheduler through a golden scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.errors import UnsupportedError
from schedbench.runner.golden_backend import Emission, QueueContents, Scheduled
from schedbench.runner.golden_identity import SegmentHasher, SegmentIdentity
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.request import FINISH_REASON, Request, RequestStatus
from schedbench.sched.scheduler import PauseState, Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schedbench.runner.golden_backend import PassReport, Row
    from schedbench.runner.golden_log import GoldenLog

CONFIG_FIELDS = (
    "max_num_batched_tokens",
    "max_num_scheduled_tokens",
    "max_num_seqs",
    "max_model_len",
    "long_prefill_token_threshold",
    "max_num_partial_prefills",
    "max_long_partial_prefills",
    "enable_chunked_prefill",
    "policy",
    "num_gpu_blocks",
    "block_size",
    "enable_prefix_caching",
    "scheduler_reserve_full_isl",
    "watermark",
    "max_loras",
)


def unsupported_features(log: GoldenLog) -> list[str]:
    """Name what a scenario needs and this scheduler does not have."""
    config, found = log.config, []
    if log.header.get("vllm_version", "0.26.0") != "0.26.0":
        found.append(f"vLLM {log.header['vllm_version']}")
    if config["async_scheduling"]:
        found.append("asynchronous scheduling")
    if (config["pipeline_depth"] or 1) > 1:
        found.append("several passes in flight")
    if config["num_speculative_tokens"]:
        found.append("speculative decoding")
    if config["kv_connector"]:
        found.append("remote KV")
    fields = {name for request in log.requests for name in request}
    names = {"grammar": "structured output", "mm": "encoder inputs", "resumable": "streaming input"}
    return found + [text for name, text in names.items() if name in fields]


class SchedBackend:
    """`golden_backend.Backend` over `schedbench.sched.scheduler.Scheduler`."""

    def __init__(self, log: GoldenLog) -> None:
        if missing := unsupported_features(log):
            raise UnsupportedError(f"{log.header['name']} needs {', '.join(missing)}")
        self.config = SchedulerConfig(**{name: log.config[name] for name in CONFIG_FIELDS})
        self.scheduler = Scheduler(self.config)
        self.token_budget = self.config.token_budget
        self._hasher = SegmentHasher(self.config.block_size)
        self._lookups: dict[str, int] = {}
        self._evicted: list[str] = []

    def add_request(self, request: Row) -> None:
        request_id = request["id"]
        root = (request.get("lora"), request.get("cache_salt"))
        identity = SegmentIdentity(self._hasher, request["prompt"], f"o:{request_id}", root)
        self.scheduler.add_request(
            Request(
                request_id,
                num_prompt_tokens=sum(length for _, length in request["prompt"]),
                max_tokens=request["max_tokens"],
                arrival_time=request["arrival"],
                identity=identity,
                priority=request.get("priority", 0),
                lora_id=request.get("lora") or 0,
            )
        )

    def schedule(self, *, throttle_prefills: bool) -> Scheduled:
        output = self.scheduler.schedule(throttle_prefills=throttle_prefills)
        self.token_budget = output.token_budget
        self._lookups.update(output.lookups)
        self._evicted.extend(victim.request.request_id for victim in output.victims)
        admitted = output.scheduled_new_reqs + output.scheduled_resumed_reqs
        return Scheduled(
            output=output,
            tokens=output.num_scheduled_tokens,
            new=[request.request_id for request in output.scheduled_new_reqs],
            resumed=[request.request_id for request in output.scheduled_resumed_reqs],
            computed={
                request.request_id: request.num_computed_tokens
                - output.num_scheduled_tokens[request.request_id]
                for request in admitted
            },
            drafts={},
            encoder_inputs={},
            encoder_freed=[],
            sampling=[
                request_id
                for request_id in output.num_scheduled_tokens
                if not self.scheduler.requests[request_id].is_prefill_chunk
            ],
        )

    def update(self, scheduled: Scheduled, report: PassReport) -> list[Emission]:
        outputs = self.scheduler.update_from_output(
            scheduled.output, ModelRunnerOutput(report.sampled)
        )
        return [
            Emission(request.request_id, 1, FINISH_REASON.get(request.status))
            for request in outputs.emitted
        ]

    def set_drafts(self, drafts: Mapping[str, int]) -> None:
        raise NotImplementedError

    def compile_grammar(self, request_id: str, *, failed: bool) -> None:
        raise NotImplementedError

    def finish_requests(self, request_ids: Sequence[str]) -> None:
        self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)

    def set_pause_state(self, state: str) -> None:
        self.scheduler.pause_state = PauseState[state]

    def reset_prefix_cache(self, *, preempt: bool) -> None:
        victims = self.scheduler.reset_prefix_cache(preempt_running=preempt)
        self._evicted.extend(request.request_id for request in victims or ())

    def take_lookups(self) -> dict[str, int]:
        taken, self._lookups = self._lookups, {}
        return taken

    def take_evictions(self) -> list[str]:
        taken, self._evicted = self._evicted, []
        return taken

    def num_unfinished(self) -> int:
        running, waiting, skipped = self.queue_lengths()
        return running + waiting + skipped

    def has_finished_to_report(self) -> bool:
        return bool(self.scheduler.finished_req_ids)

    def queue_lengths(self) -> list[int]:
        scheduler = self.scheduler
        return [
            len(scheduler.running),
            len(scheduler.waiting),
            len(scheduler.skipped_waiting),
        ]

    def queue_contents(self) -> QueueContents:
        return QueueContents(
            waiting=[request.request_id for request in self.scheduler.waiting],
            skipped=[
                [request.request_id, request.status.name]
                for request in self.scheduler.skipped_waiting
            ],
        )

    def num_free_blocks(self) -> int:
        return self.scheduler.kv_cache.pool.num_free

    def num_cached_blocks(self) -> int:
        return self.scheduler.kv_cache.pool.num_cached

    def free_queue(self) -> list[int]:
        return list(self.scheduler.kv_cache.pool.free_queue)

    def block_ids(self, request_id: str) -> list[int]:
        return self.scheduler.requests[request_id].block_ids
