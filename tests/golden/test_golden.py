"""Passes that vLLM 0.26.0's own class made, one file a scenario; ours have to be the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import GoldenLog, first_difference, read_log
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore

LOGS = sorted(Path(__file__).parent.glob("*.jsonl.gz"))
NUM_LOGS, NUM_PASSES = 76, 6892


def _name(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


def _replayed(log: GoldenLog) -> GoldenLog:
    store = RemoteStore(log.config.get("hold_frees"))
    driver = GoldenDriver(log, SchedBackend(log, store), store)
    passes = list(driver.passes())
    return GoldenLog(log.header | {"stats": driver.stats}, log.requests, passes)


@pytest.mark.parametrize("path", LOGS, ids=_name)
def test_every_column_of_every_pass_is_as_the_real_class_logged_it(path: Path) -> None:
    log = read_log(path)
    assert log.passes
    assert first_difference(log, _replayed(log)) is None


def test_no_golden_log_is_missing_or_cut_short() -> None:
    assert (len(LOGS), sum(len(read_log(path).passes) for path in LOGS)) == (NUM_LOGS, NUM_PASSES)
