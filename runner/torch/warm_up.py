"""What happens once, before the first timed pass: compiling, capturing, first touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from schedbench.runner.shapes import Row
from schedbench.runner.torch.graphs import capture
from schedbench.runner.torch.synthetic import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.torch.engine import Engine


def warm_up(engine: Engine) -> dict[str, Any]:
    """Run one pass of each kind, then capture the graphs on a GPU; returns what was measured.

    The cache holds what these passes wrote; nobody reads it, since no request has its blocks.
    """
    for rows in warm_up_passes(engine):
        run_rows(engine, rows)
    if engine.device.type != "cuda" or not engine.sizes:
        return {}
    seconds = capture(engine)
    for rows in warm_up_passes(engine):
        run_rows(engine, rows)
    return {"capture_s": round(seconds, 2)}


def warm_up_passes(engine: Engine) -> list[list[Row]]:
    """The largest prefill that fits, a small one, a mixed pass, decodes at every split count."""
    limits = engine.limits
    room = (limits.num_blocks - 1) * limits.block_size
    most = min(limits.max_tokens, limits.max_model_len, room) if _is_gpu(engine) else 1
    batch = min(limits.max_seqs, limits.max_tokens, limits.num_blocks - 1)
    passes = [[Row(max(most, 1), 0)], [Row(min(2, most), 0)]]
    if batch > 1 and limits.max_tokens > 2:  # noqa: PLR2004 - a decode and a chunk
        passes.append([Row(1, 0), Row(min(2, most), 0)])
    size = batch
    while size:
        passes.append([Row(1, 0)] * size)
        size //= 2
    return passes


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
