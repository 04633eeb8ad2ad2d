"""Replays a trace with Vidur's event loop and its Sarathi scheduler; prints its batches.

.venv-peers-vidur/bin/python bench/peer_vidur.py TRACE.csv OUT

Vidur predicts how long a batch takes from profiles that its package does not hold. Here a batch
takes what the linear clock says, so nothing of that prediction is timed. It writes no metrics.
Prints JSON: CPU and clock seconds of the simulation without start-up, and the batches.
"""

from __future__ import annotations

import json
import sys
import time

from vidur._native.entities import ExecutionTime
from vidur.config.config import (
    CacheConfig,
    ClusterConfig,
    MetricsConfig,
    ReplicaConfig,
    SarathiSchedulerConfig,
    SimulationConfig,
    TraceRequestGeneratorConfig,
)
from vidur.execution_time_predictor import BaseExecutionTimePredictor
from vidur.execution_time_predictor.execution_time_predictor_registry import (
    ExecutionTimePredictorRegistry,
)
from vidur.simulator import Simulator
from vidur.types import ExecutionTimePredictorType

BASE_MS, PER_TOKEN_MS = 8.0, 0.03
OTHER_PARTS = (0.0,) * 13  # of a batch's time: there is but one
ANY_DAY = "day"


class LinearClock(BaseExecutionTimePredictor):
    """A batch takes a constant and something for each token."""

    batches = 0

    def get_execution_time(self, batch: object, pipeline_stage: int) -> ExecutionTime:
        """What vidur asks for every batch."""
        del pipeline_stage
        LinearClock.batches += 1
        return ExecutionTime(1, BASE_MS + PER_TOKEN_MS * sum(batch.num_q_tokens), *OTHER_PARTS)


def settings(path: str, out: str) -> SimulationConfig:
    """One replica, the flags of the measured case, no metrics."""
    return SimulationConfig(
        cluster_config=ClusterConfig(
            num_replicas=1,
            replica_config=ReplicaConfig(num_pipeline_stages=1, tensor_parallel_size=1),
            cache_config=CacheConfig(
                block_size=16, num_blocks=30_000, watermark_blocks_fraction=0.0
            ),
            replica_scheduler_config=SarathiSchedulerConfig(batch_size_cap=256, chunk_size=8192),
        ),
        request_generator_config=TraceRequestGeneratorConfig(
            trace_file=path,
            date=ANY_DAY,
            prefill_scale_factor=1,
            decode_scale_factor=1,
            time_scale_factor=1,
            max_tokens=16_384,
        ),
        metrics_config=MetricsConfig(
            write_metrics=False, enable_chrome_trace=False, store_plots=False, output_dir=out
        ),
    )


def main() -> None:
    """Simulate once and print what it took."""
    LinearClock.__abstractmethods__ = frozenset()  # what only profiles would fill in
    kind = ExecutionTimePredictorType.RANDOM_FORREST
    ExecutionTimePredictorRegistry.unregister(kind)
    ExecutionTimePredictorRegistry.register(kind, LinearClock)
    simulator = Simulator(settings(*sys.argv[1:]))
    cpu, wall = time.process_time(), time.perf_counter()
    simulator.run()
    figures = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    print(json.dumps({**figures, "batches": LinearClock.batches}))


if __name__ == "__main__":
    main()
