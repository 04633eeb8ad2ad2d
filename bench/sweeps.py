"""A sweep of 64 points on two cores against one."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from cases import COST, REAL_CASES
from contest import Figures, alternate, ratio, told, whole_process
from setting import SCHEDBENCH, Setting

if TYPE_CHECKING:
    from pathlib import Path

SEATS = "32,64,96,128,160,192,224,256"
BUDGETS = "1024,2048,3072,4096,5120,6144,7168,8192"
REQUESTS, QUICK_REQUESTS = 6_000, 250
ROUNDS = 5


def measure(setting: Setting) -> list[Figures]:
    """One entry; the clock decides, for that is what a second core is for."""
    print("  64 points", file=sys.stderr)
    case = REAL_CASES[1]
    requests = QUICK_REQUESTS if setting.quick else REQUESTS
    command: list[str | Path] = [
        *(SCHEDBENCH, "sweep", setting.traces / case.trace, "--limit", str(requests)),
        *("--speedup", case.speedup, "--num-gpu-blocks", str(case.num_gpu_blocks)),
        *("--max-model-len", str(case.max_model_len), "--no-async-scheduling"),
        *("--max-num-seqs", SEATS, "--max-num-batched-tokens", BUDGETS),
        *("--cost", COST, "--no-store", "--json"),
    ]
    contestants = {
        f"{jobs} at a time": partial(whole_process, [*command, "--jobs", str(jobs)], setting.log)
        for jobs in (1, 2)
    }
    runs = alternate(contestants, ROUNDS, setting.budget_s(30, 1800))
    pair = ("1 at a time", "2 at a time")
    return [
        {
            "name": "64 points",
            "requests": requests,
            "contestants": told(runs),
            "ratios": {" / ".join(pair): ratio(runs, *pair)},
        }
    ]
