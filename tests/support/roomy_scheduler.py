"""A scheduler with vLLM's interface that has room for everybody: what a recorder is tried on.

It grants each request all it wants, so that its passes are those of any scheduler whose limits
nobody reaches. Blocks are counted, not numbered; there is no prefix cache.
"""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

from schedbench.runner.vllm_recorder import _Recorded

BLOCK, BLOCKS = 4, 1000


class Status(Enum):
    WAITING = 0
    RUNNING = 1
    FINISHED_STOPPED = 2
    FINISHED_LENGTH_CAPPED = 3
    FINISHED_ABORTED = 4


class Pool:
    """Counts free blocks."""

    num_gpu_blocks = BLOCKS

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.blocks: list[Any] = []
        self.cached_block_hash_to_block = type("Map", (), {})()

    def get_num_free_blocks(self) -> int:
        return BLOCKS - 1 - sum(self.held.values())


class Roomy:
    """The base that a recording class is put over."""

    def __init__(self) -> None:
        scheduler_config = SimpleNamespace(
            max_num_batched_tokens=4096, max_num_seqs=256, policy="fcfs", async_scheduling=False
        )
        parallel = SimpleNamespace(pipeline_parallel_size=1, data_parallel_index=0)
        self.vllm_config = SimpleNamespace(
            scheduler_config=scheduler_config,
            model_config=SimpleNamespace(runner_type="generate"),
            cache_config=SimpleNamespace(enable_prefix_caching=False),
            lora_config=None,
            parallel_config=parallel,
            speculative_config=None,
            kv_transfer_config=None,
        )
        self.parallel_config, self.cache_config = parallel, self.vllm_config.cache_config
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[None])
        self.pool = Pool()
        self.kv_cache_manager = SimpleNamespace(
            block_pool=self.pool, get_computed_blocks=lambda _request: (None, 0)
        )
        self.block_size = self.hash_block_size = BLOCK
        self.max_model_len, self.max_num_scheduled_tokens = 2048, 4096
        self.is_encoder_decoder, self.connector = False, None
        self.num_waiting_for_streaming_input = 0
        self.pause_state = SimpleNamespace(name="UNPAUSED")
        self.requests: dict[str, Any] = {}
        self.running: list[Any] = []
        self.waiting: list[Any] = []
        self.skipped_waiting: list[Any] = []

    def get_num_unfinished_requests(self) -> int:
        return len(self.requests)

    def add_request(self, request: Any) -> None:  # noqa: ANN401
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def schedule(self) -> Any:  # noqa: ANN401
        tokens, new = {}, []
        cached = SimpleNamespace(req_ids=[], num_computed_tokens=[], num_output_tokens=[])
        for request in self.running:
            tokens[request.request_id] = 1
            cached.req_ids.append(request.request_id)
            cached.num_computed_tokens.append(request.num_computed_tokens)
            cached.num_output_tokens.append(request.num_output_tokens)
        for request in self.waiting:
            self.kv_cache_manager.get_computed_blocks(request)
            tokens[request.request_id] = request.num_prompt_tokens
            prompt = [0] * request.num_prompt_tokens
            new.append(
                SimpleNamespace(
                    req_id=request.request_id, num_computed_tokens=0, prompt_token_ids=prompt
                )
            )
        self.running += self.waiting
        self.waiting = []
        for request in self.running:
            request.num_computed_tokens += tokens[request.request_id]
            self.pool.held[request.request_id] = -(-request.num_computed_tokens // BLOCK)
        return SimpleNamespace(
            num_scheduled_tokens=tokens,
            scheduled_cached_reqs=cached,
            scheduled_new_reqs=new,
            scheduled_spec_decode_tokens={},
        )

    def update_from_output(self, output: Any, _result: Any) -> dict[int, Any]:  # noqa: ANN401
        emitted = []
        for label in output.num_scheduled_tokens:
            request = self.requests.get(label)
            if request is None:
                continue
            request.num_output_tokens += 1
            emitted.append(label)
            if request.num_output_tokens == request.output_tokens:
                capped = request.output_tokens == request.max_tokens
                request.status = (
                    Status.FINISHED_LENGTH_CAPPED if capped else Status.FINISHED_STOPPED
                )
                self.running.remove(request)
                self._free_request(request)
        return {0: SimpleNamespace(outputs=emitted)} if emitted else {}

    def finish_requests(self, labels: list[str]) -> None:
        for label in labels:
            request = self.requests[label]
            (self.running if request in self.running else self.waiting).remove(request)
            request.status = Status.FINISHED_ABORTED
            self._free_request(request)

    def _free_request(self, request: Any) -> None:  # noqa: ANN401
        self.pool.held.pop(request.request_id, None)
        del self.requests[request.request_id]

    def shutdown(self) -> None:
        """Nothing is held."""


RecordedRoomy: Any = type("RecordedRoomy", (_Recorded, Roomy), {})


def request(label: str, arrival_s: float, prompt: int, output: int, cap: int) -> Any:  # noqa: ANN401
    """A request as vLLM's class is given it; `output` tokens and the model ends it."""
    return SimpleNamespace(
        request_id=label,
        arrival_time=arrival_s,
        num_prompt_tokens=prompt,
        output_tokens=output,
        max_tokens=cap,
        priority=0,
        client_index=0,
        lora_request=None,
        block_hashes=[],
        mm_features=[],
        structured_output_request=None,
        resumable=False,
        skip_reading_prefix_cache=False,
        num_computed_tokens=0,
        num_output_tokens=0,
        status=Status.WAITING,
    )
