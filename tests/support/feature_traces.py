"""The small traces of tests/features, one a kind of request.

    python tests/support/feature_traces.py     writes them anew

Each is a few requests that show the effect of a feature under the flags given with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace

FOLDER: Final = Path(__file__).parents[1] / "features"
MS: Final = 1_000_000
COST: Final = ("--cost", "linear:1ms,0.01ms")


@dataclass(frozen=True)
class Feature:
    """Columns of a trace, and the flags it is replayed with."""

    columns: dict[str, list[Any]]
    flags: tuple[str, ...]

    def trace(self) -> Trace:
        return Trace.from_columns(self.columns)

    @property
    def words(self) -> tuple[str, ...]:
        return (*COST, "--block-size", "16", "--max-model-len", "1024", *self.flags)


def _load(
    prefix_tokens: int,
    *,
    load_ms: int | None,
    valid_tokens: int | None = None,
    send_ms: int | None = None,
) -> dict[str, int | None]:
    return {
        "prefix_tokens": prefix_tokens,
        "lookup_ns": None,
        "load_ns": None if load_ms is None else load_ms * MS,
        "valid_tokens": valid_tokens,
        "send_ns": None if send_ms is None else send_ms * MS,
    }


def _grammar(delay_ms: int, *, ok: bool = True, rejects_at: int | None = None) -> dict[str, Any]:
    return {"delay_ns": delay_ms * MS, "ok": ok, "rejects_at": rejects_at}


def _chunk(delay_ms: int, prompt_tokens: int, output_tokens: int) -> dict[str, int]:
    return {
        "delay_ns": delay_ms * MS,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
    }


def _item(offset: int, tokens: int, name: int) -> dict[str, int | None]:
    return {"offset": offset, "tokens": tokens, "embeds": None, "hash": name}


FEATURES: Final = {
    "streaming": Feature(
        {
            "arrival_ns": [0, 0, 5 * MS, 5 * MS],
            "prompt_tokens": [40, 40, 30, 30],
            "output_tokens": [4, 4, 6, 6],
            "chunks": [
                [_chunk(100, 20, 5), _chunk(200, 0, 0)],
                [_chunk(60, 20, 5), _chunk(80, 0, 0)],
                None,
                None,
            ],
        },
        ("--num-gpu-blocks", "100", "--max-num-seqs", "2"),
    ),
    "grammar": Feature(
        {
            "arrival_ns": [0, 0, 0, 1 * MS],
            "prompt_tokens": [32, 32, 32, 32],
            "output_tokens": [8, 8, 8, 8],
            "grammar": [
                _grammar(30),
                _grammar(10, ok=False),
                _grammar(0, rejects_at=4),
                None,
            ],
        },
        ("--num-gpu-blocks", "100"),
    ),
    "remote-kv": Feature(
        {
            "arrival_ns": [0, 1 * MS, 60 * MS, 61 * MS],
            "prompt_tokens": [100, 100, 100, 100],
            "output_tokens": [4, 4, 4, 4],
            "remote_kv": [
                _load(96, load_ms=40),
                _load(64, load_ms=None),
                _load(96, load_ms=10, valid_tokens=48),
                _load(0, load_ms=None, send_ms=30),
            ],
        },
        ("--num-gpu-blocks", "100", "--kv-load-failure-policy", "recompute"),
    ),
    "speculation": Feature(
        {
            "arrival_ns": [0, 0, 2 * MS],
            "prompt_tokens": [50, 20, 30],
            "output_tokens": [24, 24, 24],
            "spec": [
                {"rate": None, "accepted": [3], "drafts": None},
                {"rate": None, "accepted": [0], "drafts": None},
                {"rate": None, "accepted": [2, 0, 1], "drafts": [3, 1]},
            ],
        },
        (
            "--num-gpu-blocks",
            "100",
            "--num-speculative-tokens",
            "3",
            "--spec-method",
            "eagle",
            "--no-async-scheduling",
        ),
    ),
    "encoder": Feature(
        {
            "arrival_ns": [0, 0, 0],
            "prompt_tokens": [120, 120, 120],
            "output_tokens": [4, 4, 4],
            "encoder": [
                [_item(10, 40, 1), _item(60, 40, 2)],
                [_item(20, 40, 1)],
                [_item(30, 60, 3)],
            ],
        },
        (
            "--num-gpu-blocks",
            "100",
            "--max-num-encoder-input-tokens",
            "64",
            "--encoder-cache-size",
            "100",
        ),
    ),
    "lora": Feature(
        {
            "arrival_ns": [0, 0, 0, 0],
            "prompt_tokens": [40, 40, 40, 40],
            "output_tokens": [6, 6, 6, 6],
            "lora": [1, 2, 1, None],
        },
        ("--num-gpu-blocks", "100", "--max-loras", "1"),
    ),
    "async": Feature(
        {
            "arrival_ns": [0, 0, 0],
            "prompt_tokens": [60, 60, 60],
            "output_tokens": [40, 40, 21],
        },
        ("--num-gpu-blocks", "16", "--no-scheduler-reserve-full-isl"),
    ),
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


if __name__ == "__main__":
    for name, feature in FEATURES.items():
        write_trace(feature.trace(), path_of(name))
