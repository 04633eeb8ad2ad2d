"""C2 to C5: how long passes take, beside what the ceilings allow."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbench.runner.shapes import Row, of_rows
from schedbench.runner.torch.check_table import CheckRow
from schedbench.runner.torch.measure import copy_rate, product_rate, time_rows
from schedbench.runner.torch.synthetic import placed

if TYPE_CHECKING:
    import torch

    from schedbench.runner.latency.work import WorkModel
    from schedbench.runner.torch.engine import Engine


@dataclass(frozen=True, slots=True)
class SpeedCase:
    """One pass to be timed. `bound_ms` holds for an H200 and the model the table names."""

    id: str
    what: str
    rows: tuple[Row, ...]
    bound_ms: float | None
    repeats: int = 20


def llama_cases() -> list[SpeedCase]:
    """C2a to C2d and C3, for Llama-3.1-8B on an H200."""
    one = Row(1, 1024)
    return [
        SpeedCase("C2a", "decode, 1 request, context 1024", (one,), 4.4, 50),
        SpeedCase("C3a", "prefill of 8192", (Row(8192, 0),), 275, 5),
        SpeedCase("C2b", "decode, 64 requests, context 2048", (Row(1, 2048),) * 64, 9.9),
        SpeedCase("C2c", "decode, 256 requests, context 512", (Row(1, 512),) * 256, 12.5),
        SpeedCase("C2d", "decode, 256 requests, context 1024", (one,) * 256, 17.5),
        SpeedCase("C3b", "prefill of 2048", (Row(2048, 0),), 60, 10),
        SpeedCase("C3c", "chunk of 2048 after 30k", (Row(2048, 30_720),), 150, 5),
        SpeedCase("C3d", "255 decodes and a chunk", (one,) * 255 + (Row(1793, 0),), 75, 10),
    ]


def qwen_cases() -> list[SpeedCase]:
    """C2e, for Qwen3-0.6B on an H200."""
    rows = (Row(1, 1024),) * 256
    return [SpeedCase("C2e", "Qwen3-0.6B decode, 256 requests, context 1024", rows, 10.5)]


def time_case(engine: Engine, work: WorkModel, case: SpeedCase) -> CheckRow:
    """Median device time of a pass beside its floor, the ceilings reached without any loss."""
    timed = time_rows(engine, case.rows, case.repeats)
    needed = work.work(of_rows(case.rows), engine.sizes)
    floor = max(needed.weights_s, needed.linear_s) + needed.attention_s + needed.kv_s
    return CheckRow(
        case.id, case.what, timed.median_s * 1e3, "ms", case.bound_ms, floor=floor * 1e3,
        note="graph" if timed.graph else "eager",
    )  # fmt: skip


def ceilings(
    device: torch.device, dtype: torch.dtype, *, has_bounds: bool
) -> tuple[list[CheckRow], float, float]:
    """C0: what a copy and a product reach; bytes and flops a second beside their rows."""
    copied, multiplied = copy_rate(device), product_rate(device, dtype)
    copy_bound, product_bound = (4.0, 740.0) if has_bounds else (None, None)
    rows = [
        CheckRow("C0", "large copy", copied / 1e12, "TB/s", copy_bound, at_least=True),
        CheckRow("C0", "large product", multiplied / 1e12, "TFLOP/s", product_bound, at_least=True),
    ]
    return rows, copied, multiplied


def graph_against_eager_time(engine: Engine, ctx: int, *, has_bounds: bool) -> CheckRow:
    """C4: what a graph saves at one request."""
    rows = [Row(1, ctx)]
    graph = time_rows(engine, rows, 20).median_s
    eager = time_rows(engine, rows, 20, may_use_graph=False).median_s
    note = f"graph {graph * 1e3:.2f} ms, eager {eager * 1e3:.2f} ms"
    return CheckRow(
        "C4", "one decode, graph / eager", graph / eager, "ratio", 0.5 if has_bounds else None,
        note=note,
    )  # fmt: skip


def host_time(engine: Engine, num_seqs: int, ctx: int, *, has_bounds: bool) -> list[CheckRow]:
    """C5: preparing a decode batch, and all of the host's work on it."""
    timed = time_rows(engine, [Row(1, ctx)] * num_seqs, 100)
    prepared = _prepare_ms(engine, num_seqs, ctx)
    bounds = (0.3, 1.0, 0.6) if has_bounds else (None, None, None)
    host = statistics.median(timed.host_ns) / 1e6
    who = f"{num_seqs} requests"
    return [
        CheckRow("C5", f"prepare {who}, median", float(np.median(prepared)), "ms", bounds[0]),
        CheckRow("C5", f"prepare {who}, p99", float(np.percentile(prepared, 99)), "ms", bounds[1]),
        CheckRow("C5", f"host time of a pass of {who}", host, "ms", bounds[2]),
    ]


def _prepare_ms(engine: Engine, num_seqs: int, ctx: int) -> list[float]:
    times = []
    with placed(engine, [Row(1, ctx)] * num_seqs) as scheduled:
        for _ in range(300):
            began = time.perf_counter_ns()
            engine.builder.write(scheduled, [])
            times.append((time.perf_counter_ns() - began) / 1e6)
    return times[10:]
