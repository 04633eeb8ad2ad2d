"""Flags for measuring a model on the device at hand: a pool of what memory is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from schedbench.runner.kvpool import PoolRequest, plan_pool
from schedbench.runner.latency.hardware import Gpu
from schedbench.runner.torch.device import free_bytes
from schedbench.sched.config import SchedulerConfig

if TYPE_CHECKING:
    from schedbench.runner.models import ModelSpec

GPU_SHARE: Final = 0.80  # of its memory for weights, passes and cache; graphs get of the rest
CPU_SHARE: Final = 0.25  # of what is free; other work goes on beside
LARGEST_CPU_POOL: Final = 4000  # blocks
LONGEST: Final = 40_960
REMEDY: Final = "Give a smaller --model, or lower --max-num-batched-tokens"


def measuring_config(
    spec: ModelSpec,
    device: torch.device,
    dtype: str,
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    max_model_len: int | None = None,
    num_gpu_blocks: int | None = None,
) -> SchedulerConfig:
    """Limits as given; lengths of the model, up to 40,960; and the pool that fits, if not given.

    Raises:
        UsageError: nothing is left for a pool.
    """
    if num_gpu_blocks is None:
        num_gpu_blocks = _blocks(spec, device, dtype, max_num_batched_tokens, max_num_seqs)
    return SchedulerConfig(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len or min(LONGEST, spec.max_position_embeddings),
        num_gpu_blocks=num_gpu_blocks,
    )


def _blocks(
    spec: ModelSpec, device: torch.device, dtype: str, max_tokens: int, max_seqs: int
) -> int:
    if device.type == "cuda":
        total = int(torch.cuda.mem_get_info(device)[1])
        share = GPU_SHARE
    else:
        total, share = free_bytes(device), CPU_SHARE
    here = Gpu(str(device), 0.0, 0.0, 0, 0.0, 0, 0.0, source="")
    pool = PoolRequest(
        spec,
        here,
        gpu_memory_utilization=share,
        dtype=dtype,
        total_memory_bytes=total,
        max_num_batched_tokens=max_tokens,
        max_num_seqs=max_seqs,
    )
    blocks = plan_pool(pool, remedy=REMEDY).num_gpu_blocks
    return blocks if device.type == "cuda" else min(blocks, LARGEST_CPU_POOL)
