"""The modelled releases beside each other: how long the same replay takes under each, in CPU time.

python bench/releases.py --traces DIR [--rounds 3] [--limit N]

Every round replays each case once under each release, in one process; a ratio is of one round, and
the median of the rounds is printed with the least and the most. Exit code 1 if one exceeds 1.2.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

from cases import AZURE, COST, Case, load, mooncake

from schedbench.runner.deployment import Deployment
from schedbench.runner.run import ReplayOptions, replay
from schedbench.sched.config import RELEASES

if TYPE_CHECKING:
    from schedbench.workloads.trace import Trace

MOST = 1.2
CASES = (
    Case("as recorded", AZURE, 30_000),
    Case("3 times as fast, 6,000 blocks", AZURE, 6_000, speedup="3"),
    Case("3 times as fast, 6,000 blocks, async", AZURE, 6_000, speedup="3", async_scheduling=True),
    mooncake(16),
)


def main() -> int:
    """Measure, print, and say whether any release is slower than it should be."""
    given = _arguments()
    misses = 0
    for case in CASES:
        trace = load(given.traces / case.trace, given.limit or case.limit, hash_ids=case.hash_ids)
        rounds = [_round(trace, case) for _ in range(given.rounds)]
        print(f"{case.trace}, {trace.num_requests:,} requests, {case.name}")
        for place, release in enumerate(RELEASES):
            times = [each[place] for each in rounds]
            ratios = [each[place] / each[0] for each in rounds]
            spread = f"{median(ratios):.3f} [{min(ratios):.3f} to {max(ratios):.3f}]"
            print(f"  {release}  {median(times):8.2f} s of CPU  {spread} of {RELEASES[0]}")
            misses += not 1 / MOST <= median(ratios) <= MOST
    return int(misses > 0)


def _round(trace: Trace, case: Case) -> list[float]:
    """Seconds of CPU under each release."""
    options = ReplayOptions(
        deployment=Deployment(cost=COST),
        speedup=case.speedup,
        arrivals="all-at-once" if case.all_at_once else "open",
    )
    found = []
    for release in RELEASES:
        config = replace(case.config(), vllm_version=release)
        began = process_time()
        replay(trace, config, options=options)
        found.append(process_time() - began)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="requests of each trace, for a quick look")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
