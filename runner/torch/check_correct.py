"""C1: the kernels and the graphs compute what they should."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from schedbench.runner.capture import decode_splits
from schedbench.runner.shapes import Row
from schedbench.runner.torch.attn.reference import LoopAttention
from schedbench.runner.torch.attn.select import (
    choose,
    has_triton,
    random_pass,
    relative_error,
    tile_tokens_of,
)
from schedbench.runner.torch.build import EngineOptions, num_sms
from schedbench.runner.torch.check_table import CheckRow
from schedbench.runner.torch.oracle import compare, make_model, make_requests
from schedbench.runner.torch.runner import TorchRunner
from schedbench.runner.torch.synthetic import placed
from schedbench.sched.config import SchedulerConfig

if TYPE_CHECKING:
    from schedbench.runner.models import ModelSpec
    from schedbench.runner.torch.attn.interface import Attention, AttnInput
    from schedbench.runner.torch.engine import Engine

DENSE_TOLERANCE: Final = 1e-4
HALF_TOLERANCE: Final = 1e-2
GRAPH_TOLERANCE: Final = 1e-3
TIGHT: Final = SchedulerConfig(
    max_num_batched_tokens=48, max_num_seqs=8, max_model_len=256, num_gpu_blocks=16
)


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """How many random batches, and how large."""

    num_batches: int = 40
    most_context: int = 3000
    most_tokens: int = 300


def kernels_against_reference(
    spec: ModelSpec, device: torch.device, dtype: torch.dtype, size: KernelCheck
) -> list[CheckRow]:
    """C1a: ragged batches over poisoned pages against float64, and each twice with equal bits."""
    attention = choose("auto", spec, device, dtype)
    oracle = LoopAttention(torch.float64)
    worst, differing = 0.0, 0
    for seed in range(size.num_batches):
        q, k, v, batch = _ragged(spec, device, dtype, size, seed, attention)
        found = attention(q, k, v, batch)
        differing += not torch.equal(found, attention(q, k, v, batch))
        expected = oracle(q.double(), k.double(), v.double(), batch)
        error = relative_error(found, expected)
        worst = error if not error <= worst else worst  # a NaN stays
    what = f"{attention.name} against float64, {size.num_batches} ragged batches"
    return [
        CheckRow("C1a", what, worst, "relative", HALF_TOLERANCE, is_correctness=True),
        CheckRow(
            "C1a", "batches that differ when run twice", differing, "batches", 0,
            is_correctness=True,
        ),
    ]  # fmt: skip


def _ragged(
    spec: ModelSpec,
    device: torch.device,
    dtype: torch.dtype,
    size: KernelCheck,
    seed: int,
    attention: Attention,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, AttnInput]:
    rng = np.random.default_rng(seed)
    decodes = [Row(1, int(ctx)) for ctx in rng.integers(0, size.most_context, rng.integers(1, 20))]
    chunks = [
        Row(int(rng.integers(2, size.most_tokens)), int(rng.integers(0, size.most_context)))
        for _ in range(rng.integers(0, 4))
    ]
    return random_pass(
        decodes + chunks, spec, device, dtype,
        tile_tokens=tile_tokens_of(attention),
        splits=decode_splits(len(decodes), spec.num_kv_heads, num_sms(device)), seed=seed,
    )  # fmt: skip


def dense_against_transformers(device: torch.device, families: tuple[str, ...]) -> list[CheckRow]:
    """C1b: whole models in float32 through chunks and evictions, against dense forward passes."""
    torch.set_float32_matmul_precision("highest")
    rows = []
    for family in families:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = make_model(family, folder).to(device)
            options = EngineOptions(
                model=folder, weights=folder, device=str(device), dtype="float32", eager=True
            )
            runner = TorchRunner(options, paranoid=True)
            found = compare(model, runner, TIGHT, make_requests(1, 20))
        note = f"{len(found.errors)} logits, {found.num_preempted} evictions"
        what = f"{family} in float32 against transformers, dense"
        rows.append(
            CheckRow(
                "C1b", what, found.worst, "relative", DENSE_TOLERANCE, is_correctness=True,
                note=note,
            )
        )  # fmt: skip
    return rows


def graphs_against_eager(engine: Engine, batches: tuple[int, ...], ctx: int) -> CheckRow:
    """C1c: a padded decode batch replayed from a graph, against the same batch without one."""
    worst = 0.0
    for num in batches:
        rows = [Row(1, max(1, ctx - 7 * index % ctx)) for index in range(num)]
        with placed(engine, rows) as scheduled:
            batch = engine.builder.write(scheduled, [])
            size = engine.bucket(batch)
            assert size is not None
            engine.builder.pad(batch, size)
            engine.upload(batch)
            plain = engine.logits(batch)
            padded = _captured_logits(engine, size, batch.seq_lens)[:num]
            error = relative_error(padded, plain)
            worst = error if not error <= worst else worst
    what = f"decode batches of {', '.join(map(str, batches))} padded and captured, against eager"
    return CheckRow("C1c", what, worst, "relative", GRAPH_TOLERANCE, is_correctness=True)


def _captured_logits(engine: Engine, size: int, seq_lens: np.ndarray) -> torch.Tensor:
    """Logits out of a graph of its own; on a CPU, where there are none, of the padded batch."""
    if engine.device.type != "cuda":
        return engine.padded_logits(size, seq_lens)
    engine.padded_logits(size)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = engine.padded_logits(size)
    graph.replay()
    torch.cuda.synchronize()
    return logits.clone()


def flash_against_kernels(
    spec: ModelSpec, device: torch.device, dtype: torch.dtype, size: KernelCheck
) -> CheckRow:
    """C1d: torch's own flash attention over gathered keys, against the kernels."""
    what = "gathered keys and varlen_attn, against triton"
    if device.type != "cuda" or not has_triton():
        return CheckRow("C1d", what, None, "relative", note="needs a CUDA GPU and Triton")
    ours = choose("triton", spec, device, dtype)
    flash = choose("gather_varlen", spec, device, dtype)
    worst = 0.0
    for seed in range(8):
        q, k, v, batch = _ragged(spec, device, dtype, size, seed, ours)
        error = relative_error(flash(q, k, v, batch), ours(q, k, v, batch))
        worst = error if not error <= worst else worst
    return CheckRow("C1d", what, worst, "relative", HALF_TOLERANCE, is_correctness=True)
