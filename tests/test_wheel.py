"""What `pip install .` gives: modules that are compiled, and answers that are the same."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "schedbench")
ROOMS = ("cli", "results", "runner", "sched", "workloads")
LISTED = re.findall(r'^    "(schedbench/.*)\.py",$', (ROOT / "setup.py").read_text(), re.MULTILINE)
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
HAS_COMPILER = COMPILER is not None and Path(sysconfig.get_path("include"), "Python.h").exists()
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
    """Made from a copy, so that nothing is left behind, with what an older build left in it."""
    source = folder / "source"
    left = (
        source / f"build/lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}/schedbench"
    )
    left.mkdir(parents=True)
    (left / "old.so").write_bytes(b"")
    for name in (*PARTS, *ROOMS):
        if (ROOT / name).is_dir():
            leave = shutil.ignore_patterns("__pycache__", "reference")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=leave)
        else:
            shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source, **env)
    return next(folder.glob("*.whl"))


def compiled_in(made: Path) -> set[str]:
    """Modules that a wheel holds compiled."""
    with zipfile.ZipFile(made) as held:
        names = held.namelist()
    assert {f"{name}.py" for name in LISTED} <= set(names)
    return {name.partition(".")[0] for name in names if name.endswith(".so") and "__my" not in name}


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")
def test_a_wheel_is_compiled_and_gives_the_rows_of_the_plain_way(tmp_path: Path) -> None:
    made = wheel(tmp_path, SCHEDBENCH_COMPILED="required")
    assert compiled_in(made) == set(LISTED)
    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--no-deps", "--target", installed, made)
    names = [name.replace("/", ".") for name in LISTED]
    files = run(sys.executable, "-c", WHERE, *names, installed=installed).split()
    assert not any(each.endswith(".py") for each in files)
    assert all(Path(each).is_relative_to(installed) for each in files)
    command = (sys.executable, "-m", "schedbench")
    assert json.loads(run(*command, "doctor", "--json", installed=installed))["compiled"] is True
    golden = run(*command, "verify", "--golden", "tests/golden", installed=installed)
    assert "equal" in golden
    tests = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    held = ("tests/invariants/test_short_way.py", "tests/unit/sched/test_block_pool.py")
    run(*tests, "-k", "not dry_run", *held, installed=installed)  # that copies a pool


def test_without_a_compiler_a_wheel_is_the_python_alone(tmp_path: Path) -> None:
    made = wheel(tmp_path, CC="false")
    assert made.name.endswith("none-any.whl")
    assert not compiled_in(made)


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")
def test_a_compiler_that_fails_half_way_leaves_the_python_alone(tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.write_text(f'#!/bin/sh\ncase "$*" in *line.c*) exec {COMPILER} "$@";; esac\nexit 1\n')
    failing.chmod(0o755)
    assert not compiled_in(wheel(tmp_path, CC=str(failing)))


def test_an_order_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="write no or required, or leave it out"):
        wheel(tmp_path, SCHEDBENCH_COMPILED="yes")
