"""Print the KV pool that public logs report beside the one that the formula gives.

python bench/kv_pool_logs.py

Three rows (marked) were in view when the formula's two constants were chosen: they show how well
it fits, not how well it predicts. In the others the log's own peak memory is used, so that only
the cutting into blocks is at stake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedbench.runner.kvpool import PoolRequest, plan_pool
from schedbench.runner.latency.hardware import GIB, find_gpu
from schedbench.runner.models import BUILT_IN

_LLAMA = BUILT_IN["llama-3.1-8b"]


@dataclass(frozen=True, slots=True)
class PublicLog:
    """One log: what it states, what is given to the formula, both in tokens of KV cache."""

    name: str
    source: str
    logged_tokens: int
    formula_tokens: int
    calibrated: bool = False
    note: str = ""

    @property
    def error(self) -> float:
        """Relative to the log."""
        return self.formula_tokens / self.logged_tokens - 1.0


def _cut(available_gib: float, bytes_per_token: int, block_size: int = 16) -> int:
    """Tokens in whole blocks of the memory that a log says is available."""
    return int(available_gib * GIB) // (bytes_per_token * block_size) * block_size


def _v0(name: str, peak_gib: float, blocks: int) -> PublicLog:
    """V0 logs total memory, its peak and what is not torch's: all terms but the blocks."""
    available = 0.9 * 23.58 - peak_gib - 0.35
    tokens = _cut(available, _LLAMA.kv_bytes_per_token())
    note = f"0.9 * 23.58 - {peak_gib} - 0.35 GiB, rounded in the log"
    return PublicLog(name, "vllm issue 10517", blocks * 16, tokens, note=note)


def _planned(name: str, total_gib: float, tokens: int, seqs: int, logged: int) -> PublicLog:
    request = PoolRequest(
        _LLAMA,
        find_gpu("H100"),  # only its name would matter, and both limits are given
        gpu_memory_utilization=0.9,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        total_memory_bytes=int(total_gib * GIB),
    )
    note = f"total {total_gib} GiB, utilization 0.9, {tokens} tokens, {seqs} requests: assumed"
    source = "hardware note of a public repository"
    planned = plan_pool(request)["kv_tokens"]
    return PublicLog(name, source, logged, planned, calibrated=True, note=note)


LOGS: Final = (
    _v0("RTX 3090, Llama-3.1-8B, V0", 17.06, 1952),
    _v0("RTX 3090, Llama-3.1-8B, V0, longer max len", 17.98, 1478),
    _planned("A100-40GB, Llama-3.1-8B", 39.49, 2048, 256, 163_168),
    _planned("RTX A6000, Llama-3.1-8B", 47.41, 2048, 256, 221_824),
    _planned("H100 NVL, Llama-3.1-8B", 93.11, 8192, 1024, 545_456),
    PublicLog("Qwen2.5-1.5B", "public log", 20_992, _cut(0.56, 28_672), note="0.56 GiB is rounded"),
    PublicLog(
        "Qwen3-235B-A22B-FP8, TP 4, H100",
        "vllm issue 21348",
        178_880,
        _cut(8.11, 48_128),
        note="the least of four ranks is used, and one rank's memory is logged",
    ),
)


def main() -> None:
    print(f"{'log':<44}{'logged':>10}{'formula':>10}{'error':>9}")
    for log in LOGS:
        mark = "*" if log.calibrated else " "
        print(
            f"{log.name:<43}{mark}{log.logged_tokens:>10,}{log.formula_tokens:>10,}"
            f"{log.error:>9.2%}"
        )
        print(f"    {log.source}; {log.note}")
    print("* in view when the constants were chosen")


if __name__ == "__main__":
    main()
