"""Ours, not compiled, and without the short way; the real class; writing the log from memory."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cases import REAL_CASES, Case, mooncake
from contest import Figures, alternate, ratio, told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from contest import Worker
    from setting import Setting

COUNTS = ("requests", "passes", "tokens_scheduled", "preempted")
WARM_UP_REQUESTS = 50
SLOW = "no short way"
BLOCK_SIZES = "Mooncake, block size 16 against 512"


def measure(setting: Setting) -> list[Figures]:
    """An entry a case."""
    cases = [case for case in REAL_CASES if case.least or not setting.quick]
    with ExitStack() as stack:
        workers = {
            "ours": stack.enter_context(setting.ours()),
            "not compiled": stack.enter_context(setting.not_compiled()),
            SLOW: stack.enter_context(setting.ours()),
        }
        real = setting.real_class()
        if real is not None:
            workers["real class"] = stack.enter_context(real)
        else:
            print("  the real class is left out: `make vllm-env` installs it", file=sys.stderr)
        _warm_up(workers, setting)
        entries = [_entry(case, workers, setting) for case in cases if setting.wants(case.name)]
        return [*entries, *([_mooncake(workers, setting)] if setting.wants(BLOCK_SIZES) else [])]


def _warm_up(workers: Mapping[str, Worker], setting: Setting) -> None:
    job = setting.job(replace(REAL_CASES[0], limit=WARM_UP_REQUESTS), short_way=True)
    for worker in workers.values():
        worker.ask(**job, do="replay")


def _entry(case: Case, workers: Mapping[str, Worker], setting: Setting) -> Figures:
    """All contestants on one case, the least ratio that is wanted, and where our time goes."""
    print(f"  {case.name}", file=sys.stderr)
    contestants = {
        name: partial(worker.ask, **setting.job(case, do="replay", short_way=name != SLOW))
        for name, worker in workers.items()
    }
    for name, plain in (("log written again", False), ("log by pyarrow", True)):
        job = setting.job(case, do="write", plain=plain)
        contestants[name] = partial(workers["ours"].ask, **job)
    runs = alternate(contestants, setting.rounds, setting.budget_s(20))
    _check_equal(case, runs)
    ratios = {
        "real class / ours": ("real class", "ours"),
        "real class / not compiled": ("real class", "not compiled"),
        "no short way / ours": (SLOW, "ours"),
        "ours / log written again": ("ours", "log written again"),
        "ours / log by pyarrow": ("ours", "log by pyarrow"),
    }
    return {
        "name": case.name,
        "case": setting.job(case)["case"],
        "contestants": told(runs),
        "ratios": {
            name: ratio(runs, over, under) for name, (over, under) in ratios.items() if over in runs
        },
        "profile": _profile(workers, setting.job(case, short_way=True)),
    }


def _check_equal(case: Case, runs: Mapping[str, list[Figures]]) -> None:
    """SystemExit unless everybody made the same passes."""
    ours = runs["ours"][0]
    for name in ("ours", "not compiled", SLOW, "real class"):
        for figures in runs.get(name, []):
            counts = COUNTS if name == "real class" else (*COUNTS, "decisions")
            if any(figures[count] != ours[count] for count in counts):
                raise SystemExit(f"{case.name}: not equal\nours {ours}\n{name} {figures}")


def _mooncake(workers: Mapping[str, Worker], setting: Setting) -> Figures:
    """Block size 16 against 512, shared prefixes and all."""
    print("  block sizes", file=sys.stderr)
    jobs = {
        f"block size {size}": setting.job(mooncake(size), do="replay", short_way=True)
        for size in (16, 512)
    }
    contestants = {name: partial(workers["ours"].ask, **job) for name, job in jobs.items()}
    if "real class" in workers and not setting.quick:
        job = setting.job(mooncake(16), do="replay")
        contestants["real class, 16"] = partial(workers["real class"].ask, **job)
    runs = alternate(contestants, setting.rounds, setting.budget_s(30, 900))
    pairs = {"block size 16 / 512": ("block size 16", "block size 512")}
    if "real class, 16" in runs:
        pairs["real class / ours"] = ("real class, 16", "block size 16")
        _check_mooncake(runs)
    return {
        "name": BLOCK_SIZES,
        "case": jobs["block size 16"]["case"],
        "contestants": told(runs),
        "ratios": {name: ratio(runs, over, under) for name, (over, under) in pairs.items()},
        "profile": _profile(workers, jobs["block size 16"]),
    }


def _profile(workers: Mapping[str, Worker], job: Figures) -> str:
    """Where the Python spends its time: a profiler does not see into what is compiled."""
    return str(workers["not compiled"].ask(**{**job, "do": "profile"})["text"])


def _check_mooncake(runs: Mapping[str, list[Figures]]) -> None:
    ours, real = runs["block size 16"][0], runs["real class, 16"][0]
    if any(ours[count] != real[count] for count in COUNTS):
        raise SystemExit(f"Mooncake: not equal\nours {ours}\nreal class {real}")
