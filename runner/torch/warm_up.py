"""What happens once, before the first timed pass: compiling, capturing, first touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from schedbench.runner.shapes import Row
from schedbench.runner.torch.graphs import capture
from schedbench.runner.torch.synthetic import limits_of, placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.latency.grid import Limits
    from schedbench.runner.torch.engine import Engine


def warm_up(engine: Engine) -> dict[str, Any]:
    """Run one pass of each kind, then capture the graphs on a GPU; returns what was measured.

    The cache holds what these passes wrote; nobody reads it, since no request has its blocks.
    """
    passes = warm_up_passes(limits_of(engine), on_gpu=_is_gpu(engine))
    for rows in passes:
        run_rows(engine, rows)
    if engine.device.type != "cuda" or not engine.sizes:
        return {}
    seconds = capture(engine)
    for rows in passes:
        run_rows(engine, rows)
    return {"capture_s": round(seconds, 2)}


def warm_up_passes(limits: Limits, *, on_gpu: bool) -> list[list[Row]]:
    """The largest prefill that fits, a small one, a mixed pass, decodes at every split count.

    On a CPU, where nothing is compiled, prefills are of one token.
    """
    blocks = limits.num_gpu_blocks - 1
    room = blocks * limits.block_size
    most = min(limits.max_num_batched_tokens, limits.max_model_len, room) if on_gpu else 1
    passes = [[Row(most, 0)], [Row(min(2, most), 0)], [Row(1, 0), Row(min(2, most), 0)]]
    size = min(limits.max_num_seqs, limits.max_num_batched_tokens, blocks)
    while size:
        passes.append([Row(1, 0)] * size)
        size //= 2
    return [rows for rows in passes if limits.allow(rows)]


def run_rows(engine: Engine, rows: Sequence[Row]) -> None:
    """One untimed pass, through a graph where there is one."""
    with placed(engine, rows) as scheduled:
        batch = engine.builder.write(scheduled, [])
        bucket = engine.bucket(batch)
        if bucket is not None:
            engine.builder.pad(batch, bucket)
        engine.upload(batch)
        engine.sampled(batch, bucket)
    if _is_gpu(engine):
        torch.cuda.synchronize()


def _is_gpu(engine: Engine) -> bool:
    return bool(engine.device.type == "cuda")
