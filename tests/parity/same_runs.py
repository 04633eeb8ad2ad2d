"""Replays traces with this project's scheduler and with vLLM's own class, and compares the runs.

    PYTHONPATH=tests/support python tests/parity/same_runs.py

A line a trace: those of tests/features and the head of the shipped sample as a user replays them,
then the traffic that `explain` is tested on. Exit code 1 if one run differs from the other.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

from explain_runs import CASES, COST, Case
from feature_traces import FEATURES, path_of

from schedbench.cli.main import run
from schedbench.results.compare import compare
from schedbench.results.stored_run import StoredRun
from schedbench.runner.clock import parse_cost
from schedbench.runner.installed import vllm_version
from schedbench.runner.run import ReplayOptions
from schedbench.runner.run import replay as replay_trace
from schedbench.sched.config import SchedulerConfig

SAMPLE = ("--limit", "100", "--num-gpu-blocks", "600")


def cases() -> dict[str, tuple[str, ...] | Case]:
    """What is typed after `schedbench replay`, or a case of the tests, by name."""
    found: dict[str, tuple[str, ...] | Case] = {
        "sample, synchronous": (*SAMPLE, "--no-async-scheduling"),
        "sample, asynchronous": (*SAMPLE, "--async-scheduling"),
    }
    for name, each in FEATURES.items():
        found[f"feature {name}"] = (str(path_of(name)), *each.words)
    for name, case in CASES.items():
        found[f"traffic {name}"] = case
    return found


def replay(words: tuple[str, ...], scheduler: str, folder: Path) -> StoredRun:
    given = ["replay", *words, "--scheduler", scheduler, "--out", str(folder / scheduler)]
    given += ["--vllm-version", vllm_version()]
    said = io.StringIO()
    sys.argv = ["schedbench", *given]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(given)
    if code:
        raise SystemExit(said.getvalue())
    return StoredRun.open(folder / scheduler)


def stored(case: Case, scheduler: str, folder: Path) -> StoredRun:
    """Replay a case of the tests and keep the run."""
    config = SchedulerConfig(**case.flags, vllm_version=vllm_version())
    options = ReplayOptions(**case.options, scheduler=scheduler)
    path = folder / scheduler
    replay_trace(case.trace(), config, parse_cost(COST), options=options, out=path)
    return StoredRun.open(path)


def held(case: tuple[str, ...] | Case, folder: Path) -> tuple[bool, str]:
    """Whether both runs are equal, and what is to be said of them."""
    ours, theirs = (
        stored(case, name, folder) if isinstance(case, Case) else replay(case, name, folder)
        for name in ("schedbench", "vllm")
    )
    found = compare([ours, theirs])
    (decided,), (timed,) = found.by_decisions, found.by_time_only
    if decided is None and timed is None:
        return True, f"equal, {theirs.summary['passes']} passes"
    apart = decided or timed
    assert apart is not None
    return False, f"different from pass {apart.index} on: {', '.join(apart.columns) or 'requests'}"


def main() -> int:
    sys.stdout.write(f"replays beside the class of vLLM {vllm_version()}\n")
    same = True
    for name, case in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            is_equal, says = held(case, Path(folder))
        same &= is_equal
        sys.stdout.write(f"  {name}: {says}\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
