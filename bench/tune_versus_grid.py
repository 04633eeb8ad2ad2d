"""Does `tune` find what a grid of 200 points finds, and in how many replays?

python bench/tune_versus_grid.py [TRACE...]

For each trace the best of the grid is held against the best of searches with several seeds: the
value reached, and after how many replays a search was as good as the grid.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from schedbench.results.goals import Goal
from schedbench.runner.deployment import DEFAULT_COST, Deployment
from schedbench.runner.run import ReplayOptions
from schedbench.runner.sweep import Plan, run_sweep
from schedbench.runner.tune.search import Problem, Search
from schedbench.runner.tune.space import Range, Space
from schedbench.runner.tune.study import Memory
from schedbench.runner.workers import Workers
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Workload
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.samples.sample import load_sample
from schedbench.workloads.transform import slice_trace

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
MS: Final = 1_000_000
SLO: Final = {"ttft": 2000 * MS, "tpot": 50 * MS}  # of a trace that is named
REPLAYS: Final = 32
SEEDS: Final = (0, 1, 2)


@dataclass(frozen=True)
class Case:
    """A trace, pressed so that more of a flag is not always better."""

    name: str
    trace: Trace
    speedup: str
    num_gpu_blocks: int
    slo_ns: dict[str, int]


def cases(paths: list[str]) -> list[Case]:
    """The traces that are named, or two that need no file."""
    if paths:
        return [Case(path, load_trace(path), "1", 6000, SLO) for path in paths]
    made = synth(Workload(requests=1500, seed=7))
    return [
        Case(
            "the first 400 requests of the shipped sample",
            slice_trace(load_sample(), limit=400),
            "2",
            2500,
            {"ttft": 2000 * MS, "itl": 80 * MS},
        ),
        Case("a made one of 1,500 requests", made, "6", 3000, {"ttft": 5000 * MS, "tpot": 11 * MS}),
    ]


def problem(case: Case) -> Problem:
    logical = Deployment(cost=DEFAULT_COST)
    options = ReplayOptions(speedup=case.speedup, slo_ns=case.slo_ns, deployment=logical)
    plan = Plan({}, {"num_gpu_blocks": case.num_gpu_blocks}, options)
    return Problem(case.trace, SPACE, Goal.GOODPUT, plan)


def best_of_grid(of: Problem) -> tuple[float, str]:
    """The highest goodput of all 200 points, and which point has it."""
    axes = dict(zip(SPACE, (SEATS, BUDGETS, WATERMARKS), strict=True))
    outcomes = run_sweep(of.trace, replace(of.plan, axes=axes))
    values = [(of.value_of(each.summary) or 0.0, each.point) for each in outcomes]
    best, point = max(values, key=lambda each: each[0])
    return best, " ".join(f"{name}={value}" for name, value in point.items())


def main() -> None:
    for case in cases(sys.argv[1:]):
        of = problem(case)
        grid, point = best_of_grid(of)
        print(
            f"{case.name}: the best of 200 points has {grid:.4f} requests/s ({point})", flush=True
        )
        needed = []
        for seed in SEEDS:
            search = Search(of, Memory(SPACE, None, maximizes=True, seed=seed), REPLAYS)
            with Workers(of.trace) as pool:
                search.run(pool)
            values = [of.value_of(each.summary) or 0.0 for each in search.tried]
            as_good = next((n for n, value in enumerate(values, 1) if value >= grid), None)
            needed.append(REPLAYS + 1 if as_good is None else as_good)
            told = "never" if as_good is None else f"after {as_good} replays"
            share = max(values) / grid
            print(f"  seed {seed}: {share:.4f} of it; as good {told}", flush=True)
        print(f"  as good after {median(needed):g} replays in the median")


if __name__ == "__main__":
    main()
