"""Replay the shipped sample with a forward pass for each pass, then under the times recorded.

python bench/forward_passes.py [--limit 2000] [--model tiny] [--frontend own]

Three commands as a user would type them, on the CPU; then what the two runs hold, pass by pass.
Ends with exit code 1 if a decision differs. Some minutes of one core.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from schedbench.results.stored_run import StoredRun

if TYPE_CHECKING:
    import pyarrow as pa

HELD = ("decisions", "tokens_scheduled", "preempted", "start_ns", "duration_ns")
KINDS = ("prefill", "mixed", "decode")


def command(folder: str, *words: str) -> tuple[str, float]:
    """What a command prints, and its seconds."""
    print("$ schedbench", *words)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "schedbench", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout, time.monotonic() - began


def print_times(run: StoredRun) -> None:
    """Device and host times of the passes that computed something, by what they consist of."""
    passes = run.passes(["tokens_scheduled", "prefill_tokens", "decode_tokens"])
    timings = run.timings()
    prefill, decode = (ints(passes, name) > 0 for name in ("prefill_tokens", "decode_tokens"))
    chosen = {"prefill": prefill & ~decode, "mixed": prefill & decode, "decode": decode & ~prefill}
    device, host = ints(timings, "device_ns") / 1e6, ints(timings, "host_ns") / 1e6
    print(f"{'':<10}{'passes':>9}{'device ms p50':>15}{'p99':>9}{'host ms p50':>13}{'p99':>9}")
    for kind in KINDS:
        mine = chosen[kind]
        if not mine.any():
            continue
        figures = [np.percentile(times[mine], share) for times in (device, host)
                   for share in (50, 99)]  # fmt: skip
        print(
            f"{kind:<10}{int(mine.sum()):>9,}{figures[0]:>15.2f}{figures[1]:>9.2f}"
            f"{figures[2]:>13.2f}{figures[3]:>9.2f}"
        )


def ints(table: pa.Table, name: str) -> np.ndarray:
    return np.array(table.column(name).fill_null(0).to_pylist(), dtype=np.int64)


def print_equal(measured: StoredRun, recorded: StoredRun) -> bool:
    """Column by column: the passes of both runs, and their requests."""
    passes, again = measured.passes(list(HELD)), recorded.passes(list(HELD))
    held = {name: passes.column(name).equals(again.column(name)) for name in HELD}
    held["all else of the passes"] = measured.passes().equals(recorded.passes())
    held["requests"] = measured.requests().equals(recorded.requests())
    print(
        f"under the times recorded: {again.num_rows:,} passes, and of {passes.num_rows:,} entries"
    )
    for name, is_equal in held.items():
        print(f"  {name:<24}{'all equal' if is_equal else 'DIFFERENT'}")
    return all(held.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", help="the first so many requests, not all")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--frontend", default="own")
    given = parser.parse_args()
    window = ["--limit", given.limit] if given.limit else []
    options = ["--runner", "torch", "--model", given.model, "--device", "cpu"]
    if given.frontend != "own":
        options += ["--frontend", given.frontend]
    with tempfile.TemporaryDirectory() as folder:
        _, seconds = command(folder, "replay", *window, *options, "--out", "real")
        command(folder, "replay", *window, "--recorded", "real", "--out", "again")
        said, _ = command(folder, "compare", "real", "again")
        measured = StoredRun.open(Path(folder) / "real")
        print(f"torch {torch.__version__}; time: {measured.manifest['time']['description']}")
        evicted = ints(measured.passes(["preempted"]), "preempted").sum()
        print(
            f"{measured.requests(['row']).num_rows:,} requests, {evicted:,} evictions, "
            f"{seconds:,.0f} s"
        )
        print_times(measured)
        is_equal = print_equal(measured, StoredRun.open(Path(folder) / "again"))
        print(*(" ".join(line.split()) for line in said.splitlines() if "every pass" in line))
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
