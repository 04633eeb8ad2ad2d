"""Which passes are measured to fit a profile: rows of (tokens, context), no tensors.

Passes with two to eight chunks are in it, and decode batches without their graph, or "eager" and
"one more chunk" would be one column.
Contexts are ragged in a part of the decode batches, as they are in a server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from schedbench.runner.shapes import Row, of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from schedbench.runner.shapes import PassShape

DECODE_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512)
DECODE_CONTEXTS: Final = (64, 512, 2048, 8192, 32768)
PREFILL_TOKENS: Final = (16, 64, 256, 512, 1024, 2048, 4096, 8192)
PRIOR_CONTEXTS: Final = (0, 1024, 8192, 30720)
CHUNK_COUNTS: Final = (2, 3, 4, 6, 8)
MIXED_DECODES: Final = (8, 32, 64, 128, 255)
NUM_RAGGED: Final = 30
NUM_MULTI: Final = 28
NUM_MIXED: Final = 40
EAGER_BATCHES: Final = (1, 4, 16, 64, 128, 256)
EAGER_CONTEXTS: Final = (64, 1024)
REPEATS: Final = {"decode": 20, "eager": 10, "prefill": 5, "chunks": 5, "mixed": 5, "ragged": 10}


@dataclass(frozen=True, slots=True)
class GridPass:
    """One pass to be measured `REPEATS[group]` times."""

    group: str
    rows: tuple[Row, ...]

    @property
    def may_use_graph(self) -> bool:
        """Decode batches do, but for those that show what a graph saves."""
        return self.group != "eager"

    @property
    def shape(self) -> PassShape:
        return of_rows(self.rows)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a machine can be asked for: tokens and requests of a pass, tokens of the pool."""

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    block_size: int
    num_gpu_blocks: int

    def allow(self, rows: Sequence[Row]) -> bool:
        """Whether the pass fits."""
        return self.refusal(rows) is None

    def refusal(self, rows: Sequence[Row]) -> str | None:
        """The flag and the range that a pass needs; None if it fits. Rows take whole blocks."""
        size = self.block_size
        needs = {
            "--max-num-seqs": (len(rows), self.max_num_seqs),
            "--max-num-batched-tokens": (sum(row.q for row in rows), self.max_num_batched_tokens),
            "--max-model-len": (max(row.q + row.ctx for row in rows), self.max_model_len),
            "--num-gpu-blocks": (
                sum(-(-(row.q + row.ctx) // size) for row in rows) + 1,
                self.num_gpu_blocks,
            ),
        }
        for flag, (needed, given) in needs.items():
            if needed > given:
                return f"{flag} {given}: a pass of {len(rows)} rows needs {needed} or more"
        if any(row.q < 1 or row.ctx < 0 for row in rows):
            return f"a row has no tokens, or a context below 0: {list(rows)}"
        return None


def profiling_grid(limits: Limits, seed: int = 0) -> list[GridPass]:
    """The passes that fit, in a random but repeatable order, so that drift spreads over all."""
    rng = np.random.default_rng(seed)
    passes = [
        each
        for each in (
            *_decodes(),
            *_eager_decodes(),
            *_prefills(),
            *_multi_chunk(rng, limits),
            *_mixed(rng, limits),
            *_ragged(rng, limits),
        )
        if limits.allow(each.rows)
    ]
    order = rng.permutation(len(passes))
    return [passes[index] for index in order]


def grid_hash(passes: Iterable[GridPass]) -> str:
    """Names a grid, whatever the order of its passes."""
    lines = sorted(f"{each.group} {[tuple(row) for row in each.rows]}" for each in passes)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _decodes() -> Iterable[GridPass]:
    for batch, ctx in product(DECODE_BATCHES, DECODE_CONTEXTS):
        yield GridPass("decode", (Row(1, ctx),) * batch)


def _eager_decodes() -> Iterable[GridPass]:
    for batch, ctx in product(EAGER_BATCHES, EAGER_CONTEXTS):
        yield GridPass("eager", (Row(1, ctx),) * batch)


def _prefills() -> Iterable[GridPass]:
    for q, ctx in product(PREFILL_TOKENS, PRIOR_CONTEXTS):
        yield GridPass("prefill", (Row(q, ctx),))


def _multi_chunk(rng: np.random.Generator, limits: Limits) -> Iterable[GridPass]:
    for index in range(NUM_MULTI):
        count = CHUNK_COUNTS[index % len(CHUNK_COUNTS)]
        most = min(1024, limits.max_num_batched_tokens // count, limits.max_model_len)
        if most < 2:  # noqa: PLR2004 - a chunk has at least two tokens
            continue
        tokens = rng.integers(min(16, most - 1), most, size=count)
        contexts = rng.choice((0, 256, 2048, 8192), size=count)
        contexts = np.minimum(contexts, limits.max_model_len - tokens)
        yield GridPass("chunks", _rows(tokens, contexts))


def _mixed(rng: np.random.Generator, limits: Limits) -> Iterable[GridPass]:
    """Decodes beside one to four chunks, up to a full budget."""
    for index in range(NUM_MIXED):
        decodes = min(MIXED_DECODES[index % len(MIXED_DECODES)], limits.max_num_seqs - 4)
        if decodes < 1:
            continue
        room = limits.max_num_batched_tokens - decodes
        chunks = int(rng.integers(1, 5))
        most = max(min(room // chunks, 2048), 17)
        contexts = np.minimum(_lognormal(rng, decodes), limits.max_model_len - 1)
        prior = rng.choice((0, 1024, 4096), size=chunks)
        tokens = rng.integers(16, most, size=chunks)
        prior = np.minimum(prior, limits.max_model_len - tokens)
        rows = _rows(np.ones(decodes, dtype=np.int64), contexts)
        yield GridPass("mixed", rows + _rows(tokens, prior))


def _ragged(rng: np.random.Generator, limits: Limits) -> Iterable[GridPass]:
    for index in range(NUM_RAGGED):
        batch = DECODE_BATCHES[2 + index % (len(DECODE_BATCHES) - 2)]
        ones = np.ones(batch, dtype=np.int64)
        contexts = np.minimum(_lognormal(rng, batch), limits.max_model_len - 1)
        yield GridPass("ragged", _rows(ones, contexts))


def _lognormal(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.clip(rng.lognormal(np.log(700), 0.9, size=count), 16, 16384).astype(np.int64)


def _rows(tokens: np.ndarray, contexts: np.ndarray) -> tuple[Row, ...]:
    return tuple(Row(int(q), int(ctx)) for q, ctx in zip(tokens, contexts, strict=True))
