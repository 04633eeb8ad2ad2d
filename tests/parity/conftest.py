"""Which vLLM the parity suite drives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = "0.26.0"


@pytest.fixture(scope="session")
def vllm_python(request: pytest.FixtureRequest) -> Path:
    """An interpreter that has vLLM and this project beside it."""
    python = Path(request.config.getoption("--vllm-python") or ROOT / ".venv-vllm/bin/python")
    if not python.exists():
        pytest.skip(f"{python} is not there: `make vllm-env` builds it")
    return python


@pytest.fixture(scope="session")
def golden(vllm_python: Path) -> Path:
    """The golden logs of that vLLM's release."""
    script = "from schedbench.runner.installed import vllm_version; print(vllm_version())"
    release = subprocess.run(
        [vllm_python, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    return ROOT / "tests" / ("golden" if release == OLDEST else f"golden-{release[:4]}")
