"""Processes that work on a trace: each item once, and none of them outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from explain_runs import plain

from schedbench.runner.workers import Workers
from schedbench.workloads.trace import Trace

SLEEPERS = """
import os, time
from pathlib import Path
from schedbench.runner.workers import Workers
from schedbench.workloads.samples.sample import load_sample

def sleep(trace, item):
    Path(f"{os.getpid()}.pid").touch()
    time.sleep(300)

if __name__ == "__main__":
    import sleepers
    with Workers(load_sample(), 2) as pool:
        list(pool.each(sleepers.sleep, [1, 2]))
"""


def rows_and(trace: Trace, item: int) -> tuple[int, int]:
    return trace.num_requests, item


def die_at(trace: Trace, item: int) -> int:
    del trace
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


@pytest.mark.parametrize("count", [1, 2])
def test_every_item_is_worked_on_once_with_the_trace(count: int) -> None:
    with Workers(Trace.from_columns(plain(7)), count) as pool:
        found = dict(pool.each(rows_and, [1, 2, 3]))
    assert found == {item: (7, item) for item in (1, 2, 3)}


def test_an_item_whose_process_is_killed_has_no_result() -> None:
    with Workers(Trace.from_columns(plain(3)), 2) as pool:
        found = dict(pool.each(die_at, [1, 3]))
    assert found[3] is None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_workers_go_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "sleepers.py").write_text(SLEEPERS)
    parent = subprocess.Popen([sys.executable, "sleepers.py"], cwd=tmp_path)
    deadline = time.monotonic() + 60
    while len(pids := [int(path.stem) for path in tmp_path.glob("*.pid")]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
