"""Does `tune` find what a grid of 200 points finds, and in how many replays?

python bench/tune_versus_grid.py [TRACE...]

For each trace the best of the grid is held against the best of searches with several seeds: the
value reached, and after how many replays a search was as good as the grid. docs/make_tune.py puts
what it prints into docs/tune.md. With SCHEDBENCH_BENCH_KEEP=DIR the replays are kept there, so that
one that was cut short goes on.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
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
from schedbench.workloads.generators.arrivals import Gamma
from schedbench.workloads.generators.lengths import Lengths, Lognormal
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Workload
from schedbench.workloads.importers.registry import load_trace

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
KEEP: Final = "SCHEDBENCH_BENCH_KEEP"
REPLAYS: Final = 64  # as `schedbench tune` makes
SEEDS: Final = (0, 1, 2, 3, 4)


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
    steady = synth(Workload(requests=1500, seed=7))
    lengths = Lengths(Lognormal(1500, 1.0, high=16_000), Lognormal(120, 0.8, high=1000))
    bursts = synth(Workload(requests=800, seed=11, arrivals=Gamma(7.0, 0.3), lengths=lengths))
    return [
        Case("1,500 chats", steady, "6", 3000, {"ttft": 5000 * MS, "tpot": 11 * MS}),
        Case("800 long prompts in bursts", bursts, "1", 4000, {"ttft": 3000 * MS, "itl": 150 * MS}),
    ]


def kept_in(name: str) -> Path | None:
    """A folder of that name where KEEP says so."""
    root = os.environ.get(KEEP)
    if root is None:
        return None
    path = Path(root) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def problem(case: Case) -> Problem:
    logical = Deployment(cost=DEFAULT_COST)
    options = ReplayOptions(speedup=case.speedup, slo_ns=case.slo_ns, deployment=logical)
    plan = Plan({}, {"num_gpu_blocks": case.num_gpu_blocks}, options)
    return Problem(case.trace, SPACE, Goal.GOODPUT, plan)


def best_of_grid(of: Problem, keep: Path | None) -> tuple[float, str]:
    """The highest goodput of all 200 points, and which point has it."""
    axes = dict(zip(SPACE, (SEATS, BUDGETS, WATERMARKS), strict=True))
    outcomes = run_sweep(of.trace, replace(of.plan, axes=axes), out=keep)
    values = [(of.value_of(each.summary) or 0.0, each.point) for each in outcomes]
    best, point = max(values, key=lambda each: each[0])
    return best, " ".join(f"{name}={value}" for name, value in point.items())


def best_of_search(of: Problem, seed: int, keep: Path | None) -> list[float]:
    """The value of every point that a search tries, in order; 0 of one that is given up."""
    memory = Memory(SPACE, keep, maximizes=True, seed=seed)
    search = Search(replace(of, root=keep), memory, REPLAYS)
    with Workers(of.trace) as pool:
        search.run(pool)
    return [of.value_of(each.summary) or 0.0 for each in search.tried]


def main() -> None:
    """Exit code 1 if a search is not as good as the grid."""
    needed: list[int | None] = []
    for case in cases(sys.argv[1:]):
        of = problem(case)
        grid, point = best_of_grid(of, kept_in(f"{case.name}/grid"))
        print(
            f"{case.name}\n  the best of a grid of 200: {grid:.4f} requests/s ({point})", flush=True
        )
        for seed in SEEDS:
            values = best_of_search(of, seed, kept_in(f"{case.name}/{seed}"))
            as_good = next((n for n, value in enumerate(values, 1) if value >= grid), None)
            needed.append(as_good)
            when = "never as good" if as_good is None else f"as good after {as_good}"
            print(
                f"  {REPLAYS} replays, seed {seed}: {max(values) / grid:.4f} of it; {when}",
                flush=True,
            )
    known = [each for each in needed if each is not None]
    print(
        f"at least as good in {len(known)} of {len(needed)} searches of {REPLAYS} replays, "
        f"after {median(known):g} in the median and {max(known)} at most"
        if known
        else "never as good"
    )
    if len(known) < len(needed):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
