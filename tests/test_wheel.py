"""What `pip install .` gives: modules that are compiled, and answers that are the same."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "schedbench")
ROOMS = ("cli", "results", "runner", "sched", "workloads")
MODULES = (
    "schedbench.sched.express",
    "schedbench.sched.kv_cache.counting",
    "schedbench.runner.express",
)
WHERE = "import sys, importlib; [print(importlib.import_module(m).__file__) for m in sys.argv[1:]]"


def run(*command: object, installed: Path | None = None, **env: str) -> str:
    """A command's output; the package is the one in `installed`, whatever else is there."""
    env = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(installed or ""), **env}
    done = subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def wheel(folder: Path, **env: str) -> Path:
    """Made from a copy, so that nothing is left behind."""
    source = folder / "source"
    source.mkdir()
    for name in (*PARTS, *ROOMS):
        if (ROOT / name).is_dir():
            leave = shutil.ignore_patterns("__pycache__", "reference")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=leave)
        else:
            shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source, **env)
    return next(folder.glob("*.whl"))


def test_a_wheel_is_compiled_and_gives_the_rows_of_the_plain_way(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    if made.name.endswith("none-any.whl"):
        pytest.skip("no C compiler")
    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--no-deps", "--target", installed, made)
    files = run(sys.executable, "-c", WHERE, *MODULES, installed=installed).split()
    assert all(Path(each).is_relative_to(installed) for each in files)
    assert not any(each.endswith(".py") for each in files)
    command = (sys.executable, "-m", "schedbench")
    assert json.loads(run(*command, "doctor", "--json", installed=installed))["compiled"] is True
    golden = run(*command, "verify", "--golden", "tests/golden", installed=installed)
    assert "equal" in golden
    tests = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    run(*tests, "tests/invariants/test_short_way.py", installed=installed)


def test_without_a_compiler_a_wheel_is_the_python_alone(tmp_path: Path) -> None:
    made = wheel(tmp_path, CC="false")
    assert made.name.endswith("none-any.whl")
    with zipfile.ZipFile(made) as held:
        names = held.namelist()
    assert "schedbench/sched/express.py" in names
    assert not any(name.endswith(".so") for name in names)
