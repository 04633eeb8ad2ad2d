"""The size of the KV pool as vLLM's own log states it, in the wordings of V0 and V1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from schedbench.errors import UsageError

_GIB = r"([\d.]+)\s*GiB"
_PATTERNS: Final = {
    "num_gpu_blocks": r"# GPU blocks:\s*([\d,]+)|num_gpu_blocks is:?\s*([\d,]+)",
    "kv_tokens": r"GPU KV cache size:\s*([\d,]+) tokens",
    "kv_cache_gib": rf"Available KV cache memory:\s*{_GIB}|"
    rf"kv_cache_size={_GIB}|reserved for KV Cache is\s*{_GIB}",
    "weights_gib": rf"[Mm]odel (?:loading took|weights take)\s*{_GIB}",
    "total_gib": rf"total_gpu_memory(?:=| \()\s*{_GIB}",
    "peak_gib": rf"peak_torch_memory={_GIB}",
    "non_torch_gib": rf"non_torch_memory(?:=| takes )\s*{_GIB}",
    "utilization": r"gpu_memory_utilization(?:=| \()([\d.]+)",
    "max_model_len": r"Maximum concurrency for ([\d,]+) tokens per request",
}


@dataclass(frozen=True, slots=True)
class PoolLog:
    """What a log says; None where it says nothing. Sizes in GiB, as rounded in the log."""

    num_gpu_blocks: int | None = None
    kv_tokens: int | None = None
    kv_cache_gib: float | None = None
    weights_gib: float | None = None
    total_gib: float | None = None
    peak_gib: float | None = None
    non_torch_gib: float | None = None
    utilization: float | None = None
    max_model_len: int | None = None

    def blocks(self, block_size: int = 16) -> int:
        """Blocks of the pool, the null block included.

        V1 logs tokens only. They are blocks times the block size for a model in which every
        layer attends to everything, so the quotient is exact.

        Raises:
            UsageError: the log states neither.
        """
        if self.num_gpu_blocks is not None:
            return self.num_gpu_blocks
        if self.kv_tokens is None:
            raise UsageError(
                "the log has neither '# GPU blocks: N' nor 'GPU KV cache size: N tokens'"
            )
        return self.kv_tokens // block_size


def from_log(text: str) -> PoolLog:
    """Read the lines about memory out of a server's log; with several starts the last one counts.

    Raises:
        UsageError: no line about the KV cache is in it.
    """
    found: dict[str, int | float] = {}
    for name, pattern in _PATTERNS.items():
        for match in re.finditer(pattern, text):
            number = next(group for group in match.groups() if group is not None)
            whole = name in ("num_gpu_blocks", "kv_tokens", "max_model_len")
            digits = number.rstrip(".").replace(",", "")
            found[name] = int(digits) if whole else float(digits)
    if not {"num_gpu_blocks", "kv_tokens", "kv_cache_gib"} & found.keys():
        raise UsageError(
            "no line about the KV cache in this log: looked for '# GPU blocks: N', "
            "'GPU KV cache size: N tokens' and 'Available KV cache memory: X GiB'"
        )
    return PoolLog(**found)  # type: ignore[arg-type]
