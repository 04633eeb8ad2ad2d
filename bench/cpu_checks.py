"""Print what can be known of forward passes and models of time without a GPU, each with its figure.

PYTHONPATH=tests/support python bench/cpu_checks.py

Needs the extras torch and torch-test; a minute of one core. The tests hold the same figures
to their bounds.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import numpy as np
import torch
import transformers
import triton
from fit_figures import IDENTIFIED, NOISE, extrapolate, recover
from hf_fields import HF_FIELDS
from kernel_figures import SHAPES, kernel_error
from torch.utils._python_dispatch import TorchDispatchMode

from schedbench.runner.shapes import Row
from schedbench.runner.torch.build import EngineOptions, Frontend, build_engine
from schedbench.runner.torch.model.hf import FAMILIES as HF_FAMILIES
from schedbench.runner.torch.oracle import Comparison, compare, make_model, make_requests
from schedbench.runner.torch.runner import TorchRunner
from schedbench.runner.torch.synthetic import placed
from schedbench.sched.config import SchedulerConfig

FAMILIES = ("llama", "llama3", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral")
TIGHT = SchedulerConfig(
    max_num_batched_tokens=48, max_num_seqs=8, max_model_len=256, num_gpu_blocks=16, block_size=16
)
SEEDS = 16


def logits_of(family: str, frontend: Frontend = "own", **fields: object) -> Comparison:
    """A small model of this family through a tight pool, beside transformers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(family, folder, **fields)
        options = EngineOptions(model=folder, weights=folder, device="cpu", frontend=frontend)
        runner = TorchRunner(options, paranoid=True)
        return compare(model, runner, TIGHT, make_requests(1, 20))


def print_logits() -> None:
    print("logits of whole models, float32, against dense forward passes of transformers")
    print(
        f"  {'family':<10} {'logits':>7} {'chunks':>7} {'mixed':>6} {'shared':>7} {'evicted':>8} "
        f"{'resumed':>8} {'worst relative error':>21}"
    )
    for family in FAMILIES:
        found = logits_of(family)
        print(
            f"  {family:<10} {len(found.errors):>7} {found.num_chunks:>7} {found.num_mixed:>6} "
            f"{found.num_prefix_hits:>7} {found.num_preempted:>8} {found.num_resumed:>8} "
            f"{found.worst:>21.1e}"
        )


def print_frontend() -> None:
    print("the same of --frontend hf: transformers' own model over our paged cache")
    errors = {
        family: logits_of(family, "hf", **HF_FIELDS.get(family, {})).worst for family in HF_FAMILIES
    }
    told = [f"{family} {error:.1e}" for family, error in errors.items()]
    for begin in range(0, len(told), 4):
        print("  " + "".join(f"{each:<23}" for each in told[begin : begin + 4]).rstrip())
    own, theirs = (operations(frontend) for frontend in ("own", "hf"))
    print(
        f"operations of a decode pass of tiny, views and attention apart: own {own}, hf {theirs}, "
        f"{theirs / own:.1f} times as many"
    )


class Counting(TorchDispatchMode):
    """Counts what torch is asked to compute; a view computes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def operations(frontend: Frontend) -> int:
    """Of one request's next token, with an attention that does nothing."""
    engine, _ = build_engine(EngineOptions("tiny", device="cpu", frontend=frontend), TIGHT)
    engine.decoder.attention = lambda q, *_: q  # type: ignore[assignment]
    with placed(engine, [Row(1, 5)]) as scheduled, Counting() as counting:
        engine.logits(engine.builder.write(scheduled, []))
    return counting.count


def print_kernels() -> None:
    print("Triton kernels in the interpreter against the loop in float64, pages poisoned with NaN")
    for dtype, splits in ((torch.float32, (1, 4)), (torch.float16, (4,))):
        errors = [kernel_error(shape, split, dtype) for shape in SHAPES for split in splits]
        told = " and ".join(map(str, splits))
        print(
            f"  {str(dtype)[6:]:<10} {len(SHAPES)} shapes, {told} splits: worst relative error "
            f"{max(errors):.1e}"
        )


def print_fit() -> None:
    found = [recover(seed) for seed in range(SEEDS)]
    print(
        f"fit of {found[0].num_passes} passes with {NOISE:.0%} noise to known coefficients, "
        f"{SEEDS} seeds: worst relative error"
    )
    for name in IDENTIFIED:
        print(f"  {name:<10} {max(each.off[name] for each in found):.2%}")
    worst = max(found, key=lambda each: each.held_out.mape)
    print(
        f"  {worst.held_out.num_passes} passes of a trace, held out: mean error "
        f"{worst.held_out.mape:.2%}, 95th percentile {max(f.held_out.p95 for f in found):.2%}"
    )
    beyond = extrapolate()
    print(
        f"fit to a quarter of the range, judged on {beyond.num_passes} passes up to four times as "
        f"large: mean error {beyond.mape:.1%}"
    )


def main() -> None:
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, triton {triton.__version__}, transformers "
        f"{transformers.__version__}, numpy {np.__version__}; no GPU"
    )
    print_logits()
    print_frontend()
    print_kernels()
    print_fit()


if __name__ == "__main__":
    main()
