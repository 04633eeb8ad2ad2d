"""The class of an installed vLLM beside this project's: `make parity` runs it, `make test` not."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from schedbench.runner.verify import verify

ROOT = Path(__file__).parents[2]
NUM_RANDOM = 40


def run(python: Path, *words: str | Path) -> str:
    """Run a script or a module of this project where vLLM is; what it printed."""
    found = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
    done = subprocess.run(
        [python, *words], cwd=ROOT, env=found, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_real_class_makes_the_passes_of_its_logs_again(vllm_python: Path, golden: Path) -> None:
    logs = sorted(golden.glob("*.gz"))
    said = run(vllm_python, "-m", "schedbench.runner.record_golden", "--check", *logs)
    assert said.splitlines() == [f"{log.name}: equal" for log in logs]


def test_random_scenarios_get_the_passes_of_the_real_class(
    vllm_python: Path, tmp_path: Path
) -> None:
    module = "schedbench.runner.record_golden"
    run(vllm_python, "-m", module, "--fuzz", "0", str(NUM_RANDOM), tmp_path)
    recorded = [verify(log) for log in sorted(tmp_path.glob("*.gz"))]
    assert [(log.path.name, log.parting) for log in recorded if log.status != "equal"] == []
    assert len(recorded) == NUM_RANDOM


def test_a_replay_by_the_real_class_is_the_replay_by_this_projects(vllm_python: Path) -> None:
    title, *lines = run(vllm_python, "tests/parity/same_runs.py").splitlines()
    assert "beside the class of vLLM" in title
    assert len(lines) == 9
    assert [line for line in lines if not re.search(r": equal, [1-9][0-9]* passes$", line)] == []
