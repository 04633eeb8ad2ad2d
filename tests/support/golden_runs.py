"""A golden scenario, run again on this project's scheduler."""

from __future__ import annotations

from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import GoldenLog
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore


def driven(log: GoldenLog) -> tuple[GoldenDriver, SchedBackend]:
    """The scenario and the scheduler under it, before its first pass."""
    store = RemoteStore(log.config.get("hold_frees"))
    backend = SchedBackend(log, store)
    return GoldenDriver(log, backend, store), backend


def replayed(log: GoldenLog) -> GoldenLog:
    """The same requests and events with our passes and statistics."""
    driver, _ = driven(log)
    passes = list(driver.passes())
    return GoldenLog(log.header | {"stats": driver.stats}, log.requests, passes)
