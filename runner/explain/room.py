"""What a changed configuration takes of the GPU, where a run's pool is that of a GPU."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from schedbench.errors import SchedbenchError
from schedbench.runner.latency.hardware import GPUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from schedbench.runner.deployment import Deployment
    from schedbench.sched.config import SchedulerConfig

MOST_UTILIZATION: Final = 98  # hundredths: beyond, nothing is left to the driver and other contexts
TENSOR_PARALLEL: Final = (2, 4, 8)
_OF_THE_POOL: Final = (
    "block_size",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "enable_chunked_prefill",
    "vllm_version",
    "behaviours",
)


def what_it_takes(
    deployment: Deployment, config: SchedulerConfig, changes: Mapping[str, Any]
) -> str:
    """What changed flags take beside them, in words; empty if the run's GPU has room for them.

    A pool bounds them where it was derived from a GPU, or where a GPU or a model was given that has
    room for it. A typed `--num-gpu-blocks` without either is that of a GPU not known here.
    """
    if not _is_bounded(deployment, config):
        return ""
    other = dataclasses.replace(config, **changes)
    room = room_of(deployment, other)
    card = deployment.card
    if room is None or card is None or other.num_gpu_blocks <= room:
        return ""
    enough = [*_enough(deployment, other)]
    takes = " or ".join(enough) if enough else "more memory than any GPU of the table has"
    return (
        f"{card.name} has room for {room:,} of its {other.num_gpu_blocks:,} blocks: takes {takes}"
    )


def room_of(deployment: Deployment, config: SchedulerConfig) -> int | None:
    """The largest pool on a deployment's GPU; None where its memory is not known, 0 for none."""
    try:
        plan = deployment.pool({name: getattr(config, name) for name in _OF_THE_POOL})
    except SchedbenchError:
        return 0
    return None if plan is None else plan.num_gpu_blocks


def _is_bounded(deployment: Deployment, config: SchedulerConfig) -> bool:
    room = room_of(deployment, config)
    if room is None or config.num_gpu_blocks > room:
        return False
    names = (deployment.gpu, deployment.model, deployment.gpu_memory_utilization)
    return config.num_gpu_blocks == room or any(each is not None for each in names)


def _enough(deployment: Deployment, config: SchedulerConfig) -> Iterator[str]:
    """The least of each kind of change that gives the room."""
    for kind in _changes(deployment):
        for option, change in kind:
            try:
                room = room_of(dataclasses.replace(deployment, **change), config)
            except SchedbenchError:  # options that exclude each other, such as --profile and GPUs
                break
            if room is not None and room >= config.num_gpu_blocks:
                yield option
                break


def _changes(deployment: Deployment) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    least = int(deployment.utilization * 100) + 1
    yield (
        (f"--gpu-memory-utilization {each / 100:g}", {"gpu_memory_utilization": each / 100})
        for each in range(least, MOST_UTILIZATION + 1)
    )
    ranks = [deployment.tensor_parallel_size * factor for factor in TENSOR_PARALLEL]
    yield ((f"--tensor-parallel-size {each}", {"tensor_parallel_size": each}) for each in ranks)
    larger = sorted(GPUS, key=lambda gpu: gpu.total_memory_bytes)
    yield ((f"--gpu {each.name}", {"gpu": each.name}) for each in larger)
