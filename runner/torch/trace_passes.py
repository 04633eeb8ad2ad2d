"""Passes as a trace makes them, to hold a fitted profile against what it was not fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from schedbench.runner.latency.grid import GridPass
from schedbench.runner.latency.runner import LatencyRunner
from schedbench.runner.run import replay
from schedbench.runner.shapes import rows_of
from schedbench.workloads.generators.arrivals import Poisson
from schedbench.workloads.generators.lengths import Lengths, Lognormal
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Workload

if TYPE_CHECKING:
    from schedbench.runner.api import PassResult
    from schedbench.runner.latency.grid import Limits
    from schedbench.runner.latency.work import WorkModel
    from schedbench.runner.shapes import Row
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput
    from schedbench.workloads.trace import Trace

REQUESTS: Final = 300
SHARE_OF_CAPACITY: Final = 0.7  # below it few requests would wait, above it nearly all


class _WritesRows:
    """Modelled times; keeps the rows of every pass, which needs each to be seen by itself."""

    needs_block_ids = False

    def __init__(self, inner: LatencyRunner) -> None:
        self._inner = inner
        self.open, self.close = inner.open, inner.close
        self.rows: list[tuple[Row, ...]] = []

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        if scheduler_output.num_scheduled_tokens:
            self.rows.append(tuple(rows_of(scheduler_output)))
        return self._inner.execute(scheduler_output)


def held_out_passes(
    work: WorkModel, config: SchedulerConfig, limits: Limits, count: int, seed: int = 1
) -> list[GridPass]:
    """`count` passes, drawn evenly over a replay of a synthetic trace under modelled times."""
    runner = _WritesRows(LatencyRunner(work))
    replay(busy_trace(work, config, seed=seed), config, runner)
    fitting = [rows for rows in runner.rows if limits.allow(rows)]
    chosen = np.linspace(0, len(fitting) - 1, min(count, len(fitting))).astype(int)
    return [GridPass("trace", fitting[index]) for index in chosen]


def busy_trace(
    work: WorkModel, config: SchedulerConfig, *, requests: int = REQUESTS, seed: int = 1
) -> Trace:
    """Requests that keep the modelled machine busy to a share of what it could decode.

    Lengths are scaled down where the context or the pool is small.
    """
    longest = min(config.max_model_len // 2, config.usable_blocks * config.block_size // 8)
    prompt = Lognormal(max(min(512, longest // 4), 4), 0.9, low=4, high=max(longest // 2, 4))
    output = Lognormal(max(min(128, longest // 8), 2), 0.7, low=2, high=max(longest // 4, 2))
    rate = _requests_a_second(work, config, max(min(128, longest // 8), 2))
    return synth(
        Workload(
            requests=requests, seed=seed, arrivals=Poisson(rate), lengths=Lengths(prompt, output)
        )
    )


def _requests_a_second(work: WorkModel, config: SchedulerConfig, output_tokens: int) -> float:
    """How often a request may arrive: full decode batches of 64, at a share of their rate."""
    runner = LatencyRunner(work)
    runner.open(config)
    batch = min(64, config.max_num_seqs)
    pass_s = float(runner.decode_durations(batch, batch * 512, 1)[0]) / 1e9
    return SHARE_OF_CAPACITY * batch / pass_s / output_tokens
