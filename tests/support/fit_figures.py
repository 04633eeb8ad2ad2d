"""Passes whose times are known exactly, and how near a fit comes to them; needs scipy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from schedbench.runner.capture import capture_sizes
from schedbench.runner.latency.components import Coefficients
from schedbench.runner.latency.grid import GridPass, Limits, profiling_grid
from schedbench.runner.latency.hardware import find_gpu
from schedbench.runner.latency.work import PassWork, WorkModel
from schedbench.runner.models import BUILT_IN
from schedbench.runner.shapes import Row, of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.latency.profile import Errors

LIMITS: Final = Limits(8192, 1024, 131_072, 16, 56_998)
SIZES: Final = capture_sizes(1024, 8192)
LLAMA_ON_H200: Final = WorkModel(BUILT_IN["llama-3.1-8b"], find_gpu("H200"))
TRUTH: Final = Coefficients(60e-6, 4e-3, 1e-6, 30e-6, 0.82, 0.80, 0.48, 0.75, 3.0)
NOISE: Final = 0.03
IDENTIFIED: Final = ("e_w", "e_f", "e_a", "e_k", "c_eager_s")
"""Coefficients that measured passes determine; the rest are weakly identified."""


def work_of(passes: Sequence[GridPass]) -> list[PassWork]:
    """What each pass does on an H200."""
    return [LLAMA_ON_H200.work(each.shape, SIZES if each.may_use_graph else ()) for each in passes]


def trace_like(seed: int, count: int) -> list[PassWork]:
    """Passes as a server makes them: decodes over ragged contexts, at times beside a chunk."""
    rng = np.random.default_rng(1000 + seed)
    works = []
    for _ in range(count):
        decodes = [Row(1, int(ctx)) for ctx in rng.lognormal(6.5, 0.9, rng.integers(1, 500))]
        chunks = [
            Row(int(rng.integers(2, 2000)), int(rng.choice((0, 2000))))
            for _ in range(rng.integers(0, 3))
        ]
        works.append(LLAMA_ON_H200.work(of_rows(decodes + chunks), SIZES))
    return works


@dataclass(frozen=True)
class Recovery:
    """A fit to noisy passes: its relative errors in each coefficient, and on other passes."""

    num_passes: int
    off: dict[str, float]
    held_out: Errors


def recover(seed: int) -> Recovery:
    """Fit to the grid under 3 % noise; judge on 300 passes of a trace, free of noise."""
    from schedbench.runner.latency.fit import errors, fit  # noqa: PLC0415 - needs scipy

    rng = np.random.default_rng(seed)
    works = work_of(profiling_grid(LIMITS, seed))
    seconds = [TRUTH.seconds(work) * (1 + NOISE * rng.standard_normal()) for work in works]
    found = fit(works, seconds).coefficients
    off = {name: abs(getattr(found, name) / getattr(TRUTH, name) - 1) for name in IDENTIFIED}
    others = trace_like(seed, 300)
    checked = errors(
        [found.seconds(work) for work in others], [TRUTH.seconds(work) for work in others]
    )
    return Recovery(len(works), off, checked)


def _linear_layers(tokens: int) -> float:
    """One layer's products as tiled kernels run them: waves of whole tiles, and a launch each.

    Made here, on purpose not of the model's own form: time goes up in steps, small batches read
    weights at a lower rate, and large ones multiply at one that still grows slowly.
    """
    flops, read, sms = 600e12, 2.6e12, 132
    total = 0.0
    for out, inner in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)):
        tile = 64 if tokens <= 64 else 128
        tiles = -(-tokens // tile) * -(-out // 128)
        waves = -(-tiles // sms)
        rate = flops * (0.85 + 0.15 * min(tokens / 4096, 1.0))
        multiply = waves * sms * 2 * tile * 128 * inner / rate
        load = (2 * out * inner + 2 * tokens * (out + inner)) / (
            read * min(1.0, 0.7 + tokens / 512)
        )
        total += max(multiply, load) + 0.15 * min(multiply, load) + 3e-6
    return total


def extrapolate() -> Errors:
    """Fit to the passes up to a quarter of the largest; judge on all larger ones."""
    from schedbench.runner.latency.fit import errors, fit  # noqa: PLC0415 - needs scipy

    tokens = np.unique(np.geomspace(1, 16384, 160).astype(int))
    works = [LLAMA_ON_H200.work(of_rows([Row(int(t), 0)])) for t in tokens]
    seconds = [
        32 * _linear_layers(int(count)) + work.attention_s / 0.5
        for count, work in zip(tokens, works, strict=True)
    ]
    cut = int((tokens <= 16384 // 4).sum())
    found = fit(works[:cut], seconds[:cut]).coefficients
    return errors([found.seconds(work) for work in works[cut:]], seconds[cut:])
