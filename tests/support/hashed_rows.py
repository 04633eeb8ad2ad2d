"""Prints a digest of rows that many random cases make, for a process with another hash seed.

PYTHONHASHSEED=7 python tests/support/hashed_rows.py

Both releases, all features: passes with their queues, blocks, free queue and lookups, and the three
tables of a replay. Orders count too, those of keys included.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Final

from schedbench.runner.clock import ClockRunner
from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.fuzz_flags import FEATURES
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore
from schedbench.runner.run import replay
from schedbench.sched.config import RELEASES, SchedulerConfig
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES: Final = 40
BOTH_ENDS: Final = (RELEASES[0], RELEASES[-1])


def scenario_rows(release: str, seed: int) -> Iterator[object]:
    """Every pass of one random case."""
    scenario = draw_scenario(seed, release, FEATURES)
    store = RemoteStore(scenario.config.get("hold_frees"))
    yield from GoldenDriver(scenario, SchedBackend(scenario, store), store).passes()


def replay_rows() -> Iterator[object]:
    """The tables and the summary of a replay that evicts, with adapters and aborts."""
    rows = 120
    trace = Trace.from_columns(
        {
            "arrival_ns": [row * 9_000_000 for row in range(rows)],
            "prompt_tokens": [20 + row % 7 * 30 for row in range(rows)],
            "output_tokens": [10 + row % 11 * 9 for row in range(rows)],
            "lora": [row % 4 or None for row in range(rows)],
            "abort_after_ns": [10**9 if row % 9 == 5 else None for row in range(rows)],
            "hash_ids": [
                [row % 3 * 1000 + block for block in range(-(-(20 + row % 7 * 30) // 16))]
                for row in range(rows)
            ],
        },
        hash_block_tokens=16,
    )
    config = SchedulerConfig(
        num_gpu_blocks=60, max_num_seqs=24, max_model_len=512, max_loras=2, block_size=16
    )
    run = replay(trace, config, ClockRunner(8_000_000, 30_000))
    assert run.summary["preempted"]
    for table in (run.passes, run.requests, run.itl):
        yield from table.to_pylist()
    yield run.summary


def main() -> None:
    digest = hashlib.sha256()
    count = 0
    rows = [scenario_rows(release, seed) for release in BOTH_ENDS for seed in range(CASES)]
    for each in (*rows, replay_rows()):
        for row in each:
            digest.update(json.dumps(row, default=str).encode())
            count += 1
    sys.stdout.write(f"{count} {digest.hexdigest()}\n")


if __name__ == "__main__":
    main()
