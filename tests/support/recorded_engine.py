"""An engine around vLLM's recording scheduler, without a model: what the parity tests run.

It goes through vLLM's own steps - schedule, execute, aborts of meanwhile, update, one pass ahead
where scheduling is asynchronous - with traffic drawn from a seed. It runs in an environment with
vLLM:

    python tests/support/recorded_engine.py FOLDER SEED COUNT
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from schedbench.runner.lockstep import flags_for
from schedbench.runner.vllm_backend import (
    END_TOKEN,
    build_block_hasher,
    build_config,
    prepare_environment,
    vllm_version,
)
from schedbench.sched.config import SchedulerConfig

NUM_REQUESTS = 40
MODULE = "schedbench.runner.vllm_recorder"


@dataclass
class Drawn:
    """A scenario: flags, and what the traffic may have."""

    rng: random.Random
    config: SchedulerConfig = field(init=False)
    has_priority: bool = field(init=False)
    max_loras: int | None = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng
        self.has_priority = rng.random() < 0.4
        self.max_loras = rng.choice([None, None, 1, 2])
        self.config = SchedulerConfig(
            vllm_version=vllm_version(),
            block_size=rng.choice([2, 4]),
            max_num_seqs=rng.randint(2, 8),
            max_num_batched_tokens=rng.choice([16, 24, 64]),
            max_model_len=rng.choice([48, 64]),
            num_gpu_blocks=rng.choice([34, 40, 64, 300]),
            async_scheduling=rng.random() < 0.5,
            enable_prefix_caching=rng.random() < 0.8,
            policy="priority" if self.has_priority else "fcfs",
            max_loras=self.max_loras,
            scheduler_reserve_full_isl=rng.random() < 0.7,
        )


class Engine:
    """vLLM's step, with a model that samples what was drawn for each request."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn, self.rng = drawn, drawn.rng
        self.lengths: dict[str, int] = {}
        self.pending: deque[tuple[Any, list[str]]] = deque()
        self.texts: list[list[int]] = [[token] * 24 for token in (1, 2, 3)]
        self.num_added = 0
        self.arrivals: set[float] = set()
        config = drawn.config
        flags = flags_for(config, has_encoder=False)
        self.vllm_config = build_config(flags, None)  # type: ignore[arg-type]
        name = "RecordingAsyncScheduler" if config.runs_ahead else "RecordingScheduler"
        self.vllm_config.scheduler_config.scheduler_cls = f"{MODULE}.{name}"
        self.scheduler = make_scheduler(self.vllm_config, config)
        self.hasher = build_block_hasher(self.vllm_config)

    def run(self) -> None:
        scheduler, rng = self.scheduler, self.rng
        idle = 0
        while self.num_added < NUM_REQUESTS or scheduler.has_requests() or self.pending:
            if self.num_added < NUM_REQUESTS and (rng.random() < 0.35 or idle > 2):
                for _ in range(rng.randint(1, 4)):
                    self.add()
            self.maybe_abort()
            idle = 0 if self.step() else idle + 1
        scheduler.shutdown()

    def add(self) -> None:
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        rng, config = self.rng, self.drawn.config
        text = rng.choice(self.texts)
        longest = config.max_model_len - 2
        own = [rng.randint(10, 900) for _ in range(rng.randint(1, 12))]
        prompt = (text[: rng.randint(0, len(text))] + own)[:longest]
        label = f"request-{rng.getrandbits(40):010x}"
        max_tokens = rng.randint(1, 30)
        self.lengths[label] = rng.choice([max_tokens, rng.randint(1, max_tokens)])
        lora = rng.randint(0, self.drawn.max_loras) if self.drawn.max_loras else 0
        self.num_added += 1
        self.scheduler.add_request(
            Request(
                request_id=label,
                prompt_token_ids=prompt,
                sampling_params=SamplingParams(max_tokens=max_tokens, stop_token_ids=[END_TOKEN]),
                pooling_params=None,
                arrival_time=self.arrival(),
                lora_request=LoRARequest(f"lora{lora}", lora, f"/lora/{lora}") if lora else None,
                priority=rng.randint(0, 3) if self.drawn.has_priority else 0,
                client_index=rng.randint(0, 1),
                block_hasher=self.hasher,
            )
        )

    def arrival(self) -> float:
        """Some time ago, on its way from the front end; no two at one instant."""
        at = time.time() - self.rng.random() / 1000
        while at in self.arrivals:
            at -= 1e-6
        self.arrivals.add(at)
        return at

    def maybe_abort(self) -> None:
        from vllm.v1.request import RequestStatus

        if self.scheduler.requests and self.rng.random() < 0.05:
            known = sorted(self.scheduler.requests)
            chosen = self.rng.sample(known, min(len(known), self.rng.randint(1, 2)))
            self.scheduler.finish_requests(chosen, RequestStatus.FINISHED_ABORTED)

    def step(self) -> bool:
        """One step; whether anything was left to do."""
        scheduler, depth = self.scheduler, self.drawn.config.passes_in_flight
        if scheduler.has_requests():
            output = scheduler.schedule()
            requests = scheduler.requests
            names = list(output.num_scheduled_tokens)
            samples = [name for name in names if not requests[name].is_prefill_chunk]
            self.pending.append((output, samples))
            if len(self.pending) < depth:
                return True
        elif not self.pending:
            return False
        self.fold(*self.pending.popleft())
        return True

    def fold(self, output: Any, samples: list[str]) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        self.maybe_abort()
        names = list(output.num_scheduled_tokens)
        self.scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: index for index, name in enumerate(names)},
                sampled_token_ids=[[self.token(n)] if n in samples else [] for n in names],
            ),
        )

    def token(self, label: str) -> int:
        """The next token; a finished conversation may become another's beginning."""
        request = self.scheduler.requests.get(label)
        if request is None:
            return 0
        if request.num_output_tokens + 1 < self.lengths[label]:
            return self.rng.randint(10, 900)
        self.texts.append(list(request.all_token_ids)[:40])
        return END_TOKEN


def make_scheduler(vllm_config: Any, config: SchedulerConfig) -> Any:
    """As vLLM's engine makes it: the class by its name, a pool of one full-attention group."""
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    size = config.block_size
    spec = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=64, dtype=torch.float32)
    group = KVCacheGroupSpec(["layer0"], spec)
    return vllm_config.scheduler_config.get_scheduler_cls()(
        vllm_config=vllm_config,
        kv_cache_config=KVCacheConfig(config.num_gpu_blocks, [], [group]),
        structured_output_manager=StructuredOutputManager(vllm_config),
        block_size=size,
        hash_block_size=size,
        log_stats=True,
    )


def main(folder: str, seed: str, count: str) -> None:
    prepare_environment()
    os.environ["SCHEDBENCH_RECORD_DIR"] = folder
    os.environ["SCHEDBENCH_RECORD_PART_ROWS"] = "50"
    for each in range(int(seed), int(seed) + int(count)):
        engine = Engine(Drawn(random.Random(each)))  # noqa: S311 - traffic, not secrets
        engine.scheduler.use_v2_model_runner = (
            each % 2 == 1
        )  # that one is told of resumes otherwise
        engine.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
