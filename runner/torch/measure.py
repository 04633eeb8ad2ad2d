"""Time passes given row by row, and what the machine can do at most."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from schedbench.runner.torch.synthetic import placed
from schedbench.runner.torch.timing import DeviceTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from schedbench.runner.shapes import Row
    from schedbench.runner.torch.engine import Engine

WARM_RUNS: Final = 2
COPY_BYTES: Final = {"cuda": 2**30, "cpu": 2**26}
PRODUCT_SIZE: Final = {"cuda": 8192, "cpu": 512}
CEILING_RUNS: Final = 10


@dataclass(frozen=True, slots=True)
class TimedPass:
    """One pass, several times: ns on the device, of the host's work, and whether a graph ran it."""

    device_ns: list[int]
    host_ns: list[int]
    graph: bool

    @property
    def median_s(self) -> float:
        """Seconds on the device."""
        return statistics.median(self.device_ns) / 1e9


def time_rows(
    engine: Engine, rows: Sequence[Row], repeats: int, *, may_use_graph: bool = True
) -> TimedPass:
    """Run one pass `repeats` times, after two that are not counted."""
    timer = DeviceTimer(engine.device)
    device_ns, host_ns, graph = [], [], False
    with placed(engine, rows) as scheduled:
        for run in range(WARM_RUNS + repeats):
            began = time.perf_counter_ns()
            batch = engine.builder.write(scheduled, [])
            bucket = engine.bucket(batch) if may_use_graph else None
            if bucket is not None:
                engine.builder.pad(batch, bucket)
            prepared = time.perf_counter_ns()
            timer.start()
            engine.upload(batch)
            tokens, graph = engine.sampled(batch, bucket)
            timer.stop()
            launched = time.perf_counter_ns()
            elapsed = timer.wait()
            waited = time.perf_counter_ns()
            tokens.tolist()
            if run >= WARM_RUNS:
                device_ns.append(elapsed)
                launching = launched - prepared if engine.device.type == "cuda" else 0
                reading = time.perf_counter_ns() - waited
                host_ns.append(prepared - began + launching + reading)
    return TimedPass(device_ns, host_ns, graph)


def fill_cache(engine: Engine, seed: int = 0) -> None:
    """Random keys and values everywhere, as zeros would take less power and more speed."""
    generator = torch.Generator(device=engine.device).manual_seed(seed)
    for layer in engine.decoder.cache:
        layer.normal_(generator=generator)


def copy_rate(device: torch.device) -> float:
    """Bytes a second, read and written, in a large copy on the device."""
    source = torch.randint(0, 127, (COPY_BYTES[device.type],), dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2.0 * int(source.numel()) / _best(device, lambda: target.copy_(source))


def product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Flops a second in a large square product of random matrices."""
    size = PRODUCT_SIZE[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return 2.0 * float(size**3) / _best(device, lambda: torch.mm(left, right, out=out))


def _best(device: torch.device, run: Callable[[], object]) -> float:
    """Median seconds of a run, after some that are not counted."""
    timer, times = DeviceTimer(device), []
    for index in range(WARM_RUNS + CEILING_RUNS):
        timer.start()
        run()
        timer.stop()
        elapsed = timer.wait()
        if index >= WARM_RUNS:
            times.append(elapsed)
    return statistics.median(times) / 1e9
