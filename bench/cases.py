"""What is measured: traces, flags and the ratios that are wanted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.transform import slice_trace

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.workloads.trace import Trace

AZURE: Final = "azure_2023_conv.csv.gz"
MOONCAKE: Final = "mooncake_fast25_conversation.jsonl.gz"
COST: Final = "linear:8ms,0.03ms"
BASE_NS, PER_TOKEN_NS = 8_000_000, 30_000


@dataclass(frozen=True, slots=True)
class Case:
    """A trace and flags, the same for everybody who runs it. `least`: real class / ours, wanted."""

    name: str
    trace: str
    num_gpu_blocks: int
    speedup: str = "1"
    block_size: int = 16
    max_model_len: int = 16_384
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    enable_prefix_caching: bool = True
    async_scheduling: bool = False
    all_at_once: bool = False
    hash_ids: bool = True
    limit: int | None = None
    least: float | None = None

    def config(self) -> SchedulerConfig:
        """The scheduler's flags."""
        return SchedulerConfig(
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.max_model_len,
            num_gpu_blocks=self.num_gpu_blocks,
            block_size=self.block_size,
            enable_prefix_caching=self.enable_prefix_caching,
            async_scheduling=self.async_scheduling,
        )

    def options(self) -> list[str]:
        """The same on the command line of `schedbench replay`."""
        return [
            *("--max-num-batched-tokens", str(self.max_num_batched_tokens)),
            *("--max-num-seqs", str(self.max_num_seqs)),
            *("--max-model-len", str(self.max_model_len)),
            *("--num-gpu-blocks", str(self.num_gpu_blocks)),
            *("--block-size", str(self.block_size)),
            *("--speedup", self.speedup),
            *([] if self.enable_prefix_caching else ["--no-enable-prefix-caching"]),
            *(["--async-scheduling"] if self.async_scheduling else ["--no-async-scheduling"]),
            *(["--arrivals", "all-at-once"] if self.all_at_once else []),
            *([] if self.limit is None else ["--limit", str(self.limit)]),
        ]

    def told(self) -> dict[str, Any]:
        """As JSON, for a worker and for the results."""
        return asdict(self)


@lru_cache(maxsize=2)
def load(path: Path, limit: int | None, *, hash_ids: bool) -> Trace:
    """The first `limit` requests of a file."""
    trace = load_trace(path)
    if limit is not None and limit < trace.num_requests:
        trace = slice_trace(trace, limit=limit)
    if not hash_ids and trace.has("hash_ids"):
        trace = trace.with_table(trace.table.drop_columns(["hash_ids"]), {"step": "no hash ids"})
    return trace


REAL_CASES: Final = (
    Case("as recorded", AZURE, 30_000, least=100),
    Case("3 times as fast", AZURE, 30_000, speedup="3", least=300),
    Case("8 times as fast", AZURE, 30_000, speedup="8", least=300),
    Case("3 times as fast, 6,000 blocks", AZURE, 6_000, speedup="3", least=50),
    Case("3 times as fast, async", AZURE, 30_000, speedup="3", async_scheduling=True, least=50),
    Case("3 times as fast, no prefix cache", AZURE, 30_000, "3", enable_prefix_caching=False),
)
"""Prefix caching is on where a case does not say otherwise."""

MOONCAKE_TOKENS: Final = 960_000  # 60,000 blocks of 16


def mooncake(block_size: int, *, hash_ids: bool = True) -> Case:
    """The Mooncake conversation, with a pool of as many tokens whatever the block size."""
    return Case(
        f"block size {block_size}{'' if hash_ids else ', no hash ids'}",
        MOONCAKE,
        MOONCAKE_TOKENS // block_size,
        block_size=block_size,
        max_model_len=131_072,
        hash_ids=hash_ids,
    )
