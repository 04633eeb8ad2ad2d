"""C6 to C8: the fitted model against passes and whole replays that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from schedbench.runner.latency.grid import profiling_grid
from schedbench.runner.latency.runner import LatencyRunner
from schedbench.runner.run import ReplayOptions, Run, replay
from schedbench.runner.torch.check_table import CheckRow
from schedbench.runner.torch.profile import profile_engine
from schedbench.runner.torch.runner import TorchRunner
from schedbench.runner.torch.synthetic import limits_of
from schedbench.runner.torch.trace_passes import busy_trace
from schedbench.workloads.generators.arrivals import AllAtOnce
from schedbench.workloads.generators.lengths import Lengths, Uniform
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from schedbench.runner.api import PassResult, RunnerInfo
    from schedbench.runner.latency.profile import Profile
    from schedbench.runner.latency.work import WorkModel
    from schedbench.runner.torch.engine import Engine
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput

NS: Final = 1e9
REPLAY_SEED: Final = 3
C8_LENGTHS: Final = (100, 1024)
C8_REQUESTS: Final = 256


@dataclass(frozen=True, slots=True)
class Ready:
    """A warm engine, what a manifest says of it, and the flags it was built for."""

    engine: Engine
    details: dict[str, Any]
    config: SchedulerConfig


def fit_rows(
    ready: Ready,
    out: Path,
    say: Callable[[str], None],
    *,
    has_bounds: bool,
    num_held_out: int,
    warm_s: float,
    grid_step: int = 1,
) -> tuple[list[CheckRow], Profile]:
    """C6: fit on the grid, judge on the passes of a trace."""
    grid = profiling_grid(limits_of(ready.engine))[::grid_step]
    measured = profile_engine(
        ready.engine,
        ready.config,
        out,
        details=ready.details,
        num_held_out=num_held_out,
        warm_s=warm_s,
        grid=grid,
        say=say,
    )
    found = measured.profile.held_out
    assert found is not None
    bounds = (0.06, 0.15, 0.02) if has_bounds else (None, None, None)
    note = f"drift over the measurement {measured.drift:+.1%}"
    rows = [
        CheckRow("C6", f"held-out error, mean of {found.num_passes}", found.mape, "relative",
                 bounds[0], note=note),
        CheckRow("C6", "held-out error, 95th percentile", found.p95, "relative", bounds[1]),
        CheckRow("C6", "bias of the total time", abs(found.bias), "relative", bounds[2]),
    ]  # fmt: skip
    return rows, measured.profile


def replay_rows(
    ready: Ready, profile: Profile, work: WorkModel, *, requests: int, has_bounds: bool
) -> list[CheckRow]:
    """C7: one trace, executed and modelled; percentiles side by side."""
    trace = busy_trace(work, ready.config, requests=requests, seed=REPLAY_SEED)
    runner = TorchRunner(prebuilt=(ready.engine, ready.details))
    real = _figures(replay(trace, ready.config, runner))
    modelled = _figures(replay(trace, ready.config, LatencyRunner(work, profile)))
    bounds = {
        "TTFT p50": 0.05, "TTFT p90": 0.08, "TTFT p99": 0.12, "TPOT p50": 0.04, "TPOT p99": 0.06,
        "makespan": 0.03, "evictions": 0.10,
    }  # fmt: skip
    rows = []
    for name, bound in bounds.items():
        truth, guess = real[name], modelled[name]
        error = abs(guess - truth) / truth if truth else float(guess != truth)
        note = f"measured {truth:.4g}, modelled {guess:.4g}"
        rows.append(
            CheckRow("C7", name, error, "relative", bound if has_bounds else None, note=note)
        )
    return rows


def _figures(run: Run) -> dict[str, float]:
    """Percentiles in ms, the makespan in s, a count."""
    found: dict[str, float] = {}
    for name, column, percentiles in (
        ("TTFT", "ttft_ns", (50, 90, 99)),
        ("TPOT", "tpot_ns", (50, 99)),
    ):
        values = [value for value in run.requests.column(column).to_pylist() if value is not None]
        for percentile in percentiles:
            found[f"{name} p{percentile}"] = float(np.percentile(values, percentile)) / 1e6
    found["makespan"] = max(run.requests.column("finish_ns").to_pylist()) / NS
    found["evictions"] = float(run.summary["preempted"])
    return found


class _Summing:
    """Sums what passes take on the device and on the host, one after the other."""

    needs_block_ids = True

    def __init__(self, inner: TorchRunner) -> None:
        self._inner = inner
        self.device_ns = self.host_ns = 0

    def open(self, config: SchedulerConfig) -> RunnerInfo:
        return self._inner.open(config)

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        result = self._inner.execute(scheduler_output)
        self.device_ns += result.device_ns or 0
        self.host_ns += result.host_ns or 0
        return result

    def close(self) -> None:
        self._inner.close()


def throughput_row(ready: Ready, *, has_bounds: bool) -> CheckRow:
    """C8: 256 requests at once, prompts and outputs of 100 to 1024 tokens; output tokens/s.

    Device and host time are added up, as if nothing overlapped.
    """
    low, high = C8_LENGTHS
    high = min(high, ready.config.max_model_len // 2 - 1)
    low = min(low, high)
    work = Workload(
        requests=C8_REQUESTS if has_bounds else 16, seed=0, arrivals=AllAtOnce(),
        lengths=Lengths(Uniform(low, high), Uniform(low, high)),
    )  # fmt: skip
    runner = _Summing(TorchRunner(prebuilt=(ready.engine, ready.details)))
    run = replay(synth(work), ready.config, runner, options=ReplayOptions(arrivals="all-at-once"))
    tokens = sum(run.requests.column("output_tokens").to_pylist())
    device_s, host_s = runner.device_ns / NS, runner.host_ns / NS
    note = f"{tokens} tokens, device {device_s:.2f} s, host {host_s:.2f} s"
    return CheckRow(
        "C8", "output tokens, all requests at once", tokens / (device_s + host_s), "tokens/s",
        20_000 if has_bounds else None, at_least=True, note=note,
    )  # fmt: skip
