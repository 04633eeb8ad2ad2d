"""Replays traces with this project's scheduler and with vLLM's own class, and compares the runs.

    PYTHONPATH=tests/support python tests/parity/same_runs.py

A line a trace: those of tests/features, and the head of the shipped sample. Exit code 1 if one run
differs from the other.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

from feature_traces import FEATURES, path_of

from schedbench.cli.main import run
from schedbench.results.compare import compare
from schedbench.results.stored_run import StoredRun
from schedbench.runner.vllm_backend import vllm_version

SAMPLE = ("--limit", "100", "--num-gpu-blocks", "600")


def cases() -> dict[str, tuple[str, ...]]:
    """What is typed after `schedbench replay`, by name."""
    found = {name: (str(path_of(name)), *each.words) for name, each in FEATURES.items()}
    return found | {
        "sample, synchronous": (*SAMPLE, "--no-async-scheduling"),
        "sample, asynchronous": (*SAMPLE, "--async-scheduling"),
    }


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


def held(words: tuple[str, ...], folder: Path) -> tuple[bool, str]:
    """Whether both runs are equal, and what is to be said of them."""
    ours, theirs = (replay(words, name, folder) for name in ("schedbench", "vllm"))
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
    for name, words in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            is_equal, says = held(words, Path(folder))
        same &= is_equal
        sys.stdout.write(f"  {name}: {says}\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
