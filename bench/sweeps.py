"""A sweep of 64 points on two cores against one."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from cases import REAL_CASES
from contest import Figures, alternate, ratio, told, whole_process
from setting import SCHEDBENCH, Setting

if TYPE_CHECKING:
    from pathlib import Path

SEATS = "32,64,96,128,160,192,224,256"
BUDGETS = "1024,2048,3072,4096,5120,6144,7168,8192"
SHORT, QUICK = 6_000, 250  # requests
ROUNDS = 5


def measure(setting: Setting) -> list[Figures]:
    """The whole hour, and a part of it, on which the start of the workers weighs more.

    Times are those of the default, the roofline. The clock decides, for that is what a second core
    is for.
    """
    if setting.quick:
        return [_points("64 points", QUICK, setting)]
    return [
        _points("64 points", None, setting),
        _points("64 points of 6,000 requests", SHORT, setting),
    ]


def _points(name: str, requests: int | None, setting: Setting) -> Figures:
    print(f"  {name}", file=sys.stderr)
    case = REAL_CASES[0]
    command: list[str | Path] = [
        *(SCHEDBENCH, "sweep", setting.traces / case.trace),
        *(() if requests is None else ("--limit", str(requests))),
        *("--num-gpu-blocks", str(case.num_gpu_blocks)),
        *("--max-model-len", str(case.max_model_len), "--no-async-scheduling"),
        *("--max-num-seqs", SEATS, "--max-num-batched-tokens", BUDGETS),
        *("--no-store", "--json"),
    ]
    contestants = {
        f"{jobs} at a time": partial(whole_process, [*command, "--jobs", str(jobs)], setting.log)
        for jobs in (1, 2)
    }
    runs = alternate(contestants, ROUNDS, setting.budget_s(30, 1800))
    pair = ("1 at a time", "2 at a time")
    return {
        "name": name,
        "contestants": told(runs),
        "ratios": {" / ".join(pair): ratio(runs, *pair)},
    }
