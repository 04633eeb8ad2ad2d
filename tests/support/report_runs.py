"""Runs for reports: made by real replays of a part of the shipped sample, on too small a pool."""

from pathlib import Path

from schedbench.results.stored_run import StoredRun
from schedbench.runner.run import ReplayOptions, replay
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.samples.sample import load_sample
from schedbench.workloads.transform import slice_trace

REQUESTS = 120
BLOCKS = 420


def crowded_run(folder: Path, **flags: object) -> StoredRun:
    """A stored run that evicts, cancels admissions and stands idle for a while at its end."""
    trace = slice_trace(load_sample(), limit=REQUESTS)
    config = SchedulerConfig(**({"num_gpu_blocks": BLOCKS} | flags))
    replay(trace, config, options=ReplayOptions(speedup="4"), out=folder)
    return StoredRun.open(folder)
