"""Capture decode batches as CUDA graphs, and count what Triton compiles."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from schedbench.runner.torch.device import out_of_memory

if TYPE_CHECKING:
    from schedbench.runner.torch.engine import Engine


def capture(engine: Engine) -> float:
    """Capture every size, the largest first, in one shared memory pool; returns the seconds.

    Each size runs once outside a graph before: kernels are compiled and workspaces allocated
    there. All rows are padding meanwhile, of length 0.

    Raises:
        UsageError: the GPU ran out of memory.
    """
    began = time.perf_counter()
    engine.clear()
    pool = torch.cuda.graph_pool_handle()
    try:
        for size in sorted(engine.sizes, reverse=True):
            engine.padded_logits(size).argmax(dim=-1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                tokens = engine.padded_logits(size).argmax(dim=-1)
            engine.graphs[size] = (graph, tokens)
    except torch.OutOfMemoryError as error:
        raise out_of_memory(error, f"capturing graphs of {len(engine.sizes)} sizes") from error
    torch.cuda.synchronize()
    return time.perf_counter() - began


class CompileCounter:
    """How many kernels Triton has compiled since it was made; 0 where there is no Triton."""

    def __init__(self) -> None:
        self.count = 0
        try:
            from triton import knobs  # noqa: PLC0415 - absent from torch's CPU builds
        except ImportError:
            return
        self._knobs = knobs
        self._before = knobs.runtime.jit_post_compile_hook
        knobs.runtime.jit_post_compile_hook = self._compiled

    def _compiled(self, **told: object) -> object:
        self.count += 1
        return self._before(**told) if self._before is not None else None

    def close(self) -> None:
        """Take the hook away again."""
        if hasattr(self, "_knobs"):
            self._knobs.runtime.jit_post_compile_hook = self._before
