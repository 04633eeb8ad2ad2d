"""Whole commands, as a user runs them: in this process where that shows as much, else in one."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import Cli, Program, Ran

from schedbench.cli.main import run
from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs where nothing is, on a terminal of no particular width."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "SCHEDBENCH_DEBUG", "SCHEDBENCH_VLLM_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in this process."""

    def run_here(*words: object, debug: bool = False) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        given = [str(word) for word in words]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "argv", ["schedbench", *given])
            code = run(given, debug=debug)
        return Ran(code, out.getvalue(), err.getvalue())

    return run_here


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Run a command line in a process of its own."""

    def run_there(*words: object, **env: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "schedbench", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **env},
            timeout=120,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run_there


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Forty requests of two clients; with 80 blocks of 16 tokens some are evicted."""
    rows = 40
    trace = Trace.from_columns(
        {
            "arrival_ns": [row * 5_000_000 for row in range(rows)],
            "prompt_tokens": [60 + row % 7 * 20 for row in range(rows)],
            "output_tokens": [30 + row % 5 * 10 for row in range(rows)],
            "client": [row % 2 for row in range(rows)],
        }
    )
    path = tmp_path / "small.parquet"
    write_trace(trace, path)
    return path


TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")
