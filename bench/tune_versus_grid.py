"""Does `tune` find what a grid of 200 points finds, and in how many replays?

python bench/tune_versus_grid.py [TRACE...]

For each trace the best of the grid is held against the best of searches with several seeds: the
value reached, and after how many replays a search was as good as the grid.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Final

from schedbench.results.goals import Goal
from schedbench.runner.clock import parse_cost
from schedbench.runner.run import DEFAULT_COST, ReplayOptions
from schedbench.runner.tune.jobs import run_job
from schedbench.runner.tune.search import Problem, Search
from schedbench.runner.tune.space import Range, Space
from schedbench.runner.tune.study import Memory
from schedbench.runner.workers import Workers
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Workload
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.samples.sample import load_sample

if TYPE_CHECKING:
    from schedbench.workloads.trace import Trace

SEATS: Final = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192)
BUDGETS: Final = (256, 512, 1024, 2048, 8192)
WATERMARKS: Final = (0.0, 0.02, 0.05, 0.1)
SPACE: Final[Space] = {
    "max_num_seqs": Range(8, 192),
    "max_num_batched_tokens": Range(256, 8192),
    "watermark": Range(0.0, 0.1, whole=False),
}
SLO: Final = {"ttft": 2_000_000_000, "tpot": 14_000_000}
REPLAYS: Final = 64
SEEDS: Final = (0, 1, 2)


@dataclass(frozen=True)
class Case:
    """A trace, pressed hard enough for the flags to matter."""

    name: str
    trace: Trace
    speedup: str
    num_gpu_blocks: int


def cases(paths: list[str]) -> list[Case]:
    """The traces that are named, or two that need no file."""
    if paths:
        return [Case(path, load_trace(path), "1", 6000) for path in paths]
    made = synth(Workload(requests=1500, seed=7))
    return [
        Case("the shipped sample", load_sample(), "1.5", 4000),
        Case("a made one", made, "6", 3000),
    ]


def problem(case: Case) -> Problem:
    config = SchedulerConfig(num_gpu_blocks=case.num_gpu_blocks)
    options = ReplayOptions(speedup=case.speedup, slo_ns=SLO)
    return Problem(case.trace, SPACE, Goal.GOODPUT, config, options, parse_cost(DEFAULT_COST))


def best_of_grid(of: Problem) -> float:
    """The highest goodput of all 200 points."""
    names = tuple(SPACE)
    points = [dict(zip(names, each, strict=True)) for each in product(SEATS, BUDGETS, WATERMARKS)]
    jobs = [of.job(point) for point in points]
    with Workers(of.trace) as pool:
        found = [of.value_of(result) for _, result in pool.each(run_job, jobs) if result]
    return max(value for value in found if value is not None)


def main() -> None:
    for case in cases(sys.argv[1:]):
        of = problem(case)
        grid = best_of_grid(of)
        print(f"{case.name}: the best of 200 points has a goodput of {grid:.4f} requests/s")
        needed = []
        for seed in SEEDS:
            search = Search(of, Memory(SPACE, None, maximizes=True, seed=seed), REPLAYS)
            with Workers(of.trace) as pool:
                search.run(pool)
            values = [of.value_of(each.result) or 0.0 for each in search.tried]
            as_good = next((n for n, value in enumerate(values, 1) if value >= grid), None)
            needed.append(REPLAYS + 1 if as_good is None else as_good)
            told = "never" if as_good is None else f"after {as_good} replays"
            print(f"  seed {seed}: {max(values) / grid:.4f} of it; as good {told}")
        print(f"  as good after {median(needed):g} replays in the median")


if __name__ == "__main__":
    main()
