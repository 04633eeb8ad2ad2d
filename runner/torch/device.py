"""Which device and dtype a run gets, and whether what it needs fits, before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.runner.models import ModelSpec

DTYPES: Final = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
GIB: Final = 2**30
HOST_SHARE: Final = 0.9  # of the memory that is free now
MEMINFO: Final = Path("/proc/meminfo")
UNKNOWN: Final = 2**63  # no limit that could be read


def choose_device(name: str) -> torch.device:
    """`auto` is the GPU if there is one. Raises UsageError for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.split(":", maxsplit=1)[0] not in ("cuda", "cpu"):
        raise UsageError(f"--device {name}: it is auto, cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        built = "built without CUDA" if torch.version.cuda is None else "no GPU is visible"
        raise UsageError(
            f"--device {name}: torch {torch.__version__} sees no CUDA GPU ({built}); give "
            "--device cpu with a small model, or use a latency model, which needs none"
        )
    return torch.device(name)


def choose_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """By default bfloat16 on a GPU and float32 on a CPU, where bfloat16 is slow."""
    if name is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise UsageError(f"--dtype {name}: it is one of {', '.join(DTYPES)}")
    return DTYPES[name]


def check_memory(
    spec: ModelSpec, device: torch.device, dtype: torch.dtype, num_blocks: int, block_size: int
) -> int:
    """Bytes of the cache, once weights and cache are known to fit.

    Raises:
        UsageError: they do not; the message has both sizes and what is free.
    """
    name = str(dtype).removeprefix("torch.")
    cache = spec.kv_bytes_per_token(name) * block_size * num_blocks
    weights = spec.weight_bytes(name)
    free = free_bytes(device)
    if weights + cache > free:
        fits = (free - weights) // max(1, cache // num_blocks)
        fewer = f"--num-gpu-blocks {fits} or less, or " if fits > 1 else ""
        raise UsageError(
            f"{spec.name} in {name} needs {weights / GIB:.1f} GiB for weights and "
            f"{cache / GIB:.1f} GiB for {num_blocks} KV blocks of {block_size} tokens; {device} "
            f"has {free / GIB:.1f} GiB free. Give {fewer}a smaller --model"
        )
    return cache


def free_bytes(device: torch.device) -> int:
    """Memory that is free now, of a GPU or of the host."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if MEMINFO.is_file():
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(int(line.split()[1]) * 1024 * HOST_SHARE)
    return UNKNOWN


def out_of_memory(error: torch.OutOfMemoryError, doing: str) -> UsageError:
    """A refusal that says what was going on and what would help."""
    return UsageError(
        f"the GPU ran out of memory while {doing}: {str(error).splitlines()[0]} Give fewer "
        "--num-gpu-blocks, a smaller --max-num-batched-tokens, or a smaller --model"
    )
