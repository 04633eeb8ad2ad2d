"""Small traces of every kind of traffic, and runs of them to be explained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedbench.results.stored_run import StoredRun
from schedbench.runner.clock import parse_cost
from schedbench.runner.explain.rerun import Rerun, rerun_of
from schedbench.runner.run import ReplayOptions, replay
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
COST = "linear:1ms,0.01ms"


@dataclass(frozen=True)
class Case:
    """A trace with the flags that make it interesting."""

    columns: dict[str, Any]
    flags: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    hash_block_tokens: int | None = None

    def trace(self) -> Trace:
        return Trace.from_columns(self.columns, hash_block_tokens=self.hash_block_tokens)

    def stored(self, folder: Path) -> StoredRun:
        """Replay the case and keep trace and run in a folder."""
        path = folder / "trace.parquet"
        write_trace(self.trace(), path)
        from schedbench.workloads.store import read_trace  # noqa: PLC0415 (only here)

        run = replay(
            read_trace(path),
            SchedulerConfig(**self.flags),
            parse_cost(COST),
            options=ReplayOptions(**self.options),
            out=folder / "run",
        )
        assert run.path is not None
        return StoredRun.open(run.path)

    def rerun(self, folder: Path) -> Rerun:
        return rerun_of(self.stored(folder))


def plain(rows: int = 40, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (columns of any type)
    """Requests every 5 ms with prompts of 60 to 180 and outputs of 30 to 70 tokens."""
    return {
        "arrival_ns": [row * 5 * MS for row in range(rows)],
        "prompt_tokens": [60 + row % 7 * 20 for row in range(rows)],
        "output_tokens": [30 + row % 5 * 10 for row in range(rows)],
        **more,
    }


TIGHT = {"num_gpu_blocks": 80, "max_model_len": 1024}


def streams(row: int) -> list[dict[str, int]]:
    later = {"delay_ns": (60 + row) * MS, "prompt_tokens": 40, "output_tokens": 20}
    return [later, {"delay_ns": (200 + row) * MS, "prompt_tokens": 0, "output_tokens": 0}]


def remote(row: int) -> dict[str, int | None] | None:
    if row % 2:
        return None
    lookup = 12 * MS if row % 4 == 0 else None
    return {
        "prefix_tokens": 48,
        "lookup_ns": lookup,
        "load_ns": 30 * MS if row % 3 else None,
        "valid_tokens": 48,
        "send_ns": None,
    }


def beginning(row: int) -> list[int]:
    """Three blocks shared with every third request, then some of its own."""
    own = (60 + row % 7 * 20) // 16 - 3
    return [
        *range(row % 3 * 100, row % 3 * 100 + 3),
        *range(1000 * row + 999, 1000 * row + 999 + own),
    ]


CASES = {
    "pressed": Case(plain(), TIGHT),
    "synchronous": Case(plain(), {**TIGHT, "async_scheduling": False}),
    "seats": Case(plain(), {**TIGHT, "max_num_seqs": 4}),
    "budget": Case(
        {**plain(), "arrival_ns": [row * MS for row in range(40)]},
        {"max_num_batched_tokens": 64, "max_num_seqs": 64},
    ),
    "watermark": Case(plain(), {**TIGHT, "watermark": 0.2}),
    "priority": Case(
        plain(priority=[row % 3 for row in range(40)]),
        {**TIGHT, "policy": "priority", "max_num_seqs": 8},
    ),
    "adapters": Case(plain(lora=[row % 4 or None for row in range(40)]), {**TIGHT, "max_loras": 1}),
    "streaming": Case(
        plain(chunks=[streams(row) for row in range(40)]),
        {**TIGHT, "num_gpu_blocks": 400, "max_num_seqs": 12},
    ),
    "turns": Case(  # sessions keep their blocks, so that a later turn waits for some
        plain(chunks=[streams(row) for row in range(40)]),
        {**TIGHT, "num_gpu_blocks": 230},
    ),
    "remote KV": Case(plain(remote_kv=[remote(row) for row in range(40)]), TIGHT),
    "speculative": Case(plain(), {**TIGHT, "num_speculative_tokens": 3}),
    "drafts ahead": Case(plain(), {**TIGHT, "num_speculative_tokens": 2, "spec_method": "eagle"}),
    "pipeline": Case(plain(), {**TIGHT, "pipeline_parallel_size": 3}),
    "grammar": Case(
        plain(
            grammar=[
                {"delay_ns": 25 * MS, "ok": True, "rejects_at": None} if row % 3 == 0 else None
                for row in range(40)
            ]
        ),
        TIGHT,
    ),
    "aborted": Case(
        plain(abort_after_ns=[40 * MS if row % 6 == 5 else None for row in range(40)]), TIGHT
    ),
    "shared": Case(
        plain(hash_ids=[beginning(row) for row in range(40)]),
        TIGHT,
        hash_block_tokens=16,
    ),
    "sped up": Case(plain(), TIGHT, {"speedup": "2", "warmup_ns": 20 * MS}),
}
