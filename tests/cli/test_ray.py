"""A sweep on a Ray of this machine: the same table, also when a worker is killed."""

import json
import sys
from pathlib import Path

import pytest
from cli_runs import Cli, Program

AXES = ("--max-num-seqs", "4,8,16,32", "--num-gpu-blocks", "80,160,320", "--max-model-len", "1024")


def test_without_ray_the_extra_is_named(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "schedbench.runner.ray_workers", raising=False)
    ran = cli("sweep", small, *AXES, "--executor", "ray")
    assert ran.code == 2
    assert "pip install '.[ray]'" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ray-address", "a:1"), "is of --executor ray"),
        (("--executor", "ray", "--ray-address", "a:1", "--jobs", "2"), "a cluster says itself"),
    ],
)
def test_options_without_effect_are_refused(
    cli: Cli, small: Path, words: tuple[str, ...], message: str
) -> None:
    ran = cli("sweep", small, *AXES, *words)
    assert ran.code == 2
    assert message in ran.err


DEADLY = """
import os, signal
from pathlib import Path
from schedbench import Policy

class Once(Policy):
    calls = 0

    def may_admit(self, request, state):
        self.calls += 1
        if self.calls == 25 and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return True
"""
"""A policy that kills the process it runs in, in the middle of its replay, once."""


@pytest.mark.ray
def test_a_sweep_with_one_worker_killed_has_the_table_of_a_local_one(
    program: Program, small: Path
) -> None:
    pytest.importorskip("ray")
    folder = small.parent
    (folder / "deadly.py").write_text(DEADLY)
    killed = folder / "killed"
    killed.touch()
    asked = ("sweep", small, *AXES, "--policy-class", "deadly:Once", "--json")
    local = program(*asked, "--jobs", "1", "--out", "local")
    assert local.code == 0, local.err
    killed.unlink()
    on_ray = program(*asked, "--executor", "ray", "--jobs", "3", "--out", "on-ray")
    assert killed.exists()
    assert on_ray.code == 0, on_ray.err
    assert json.loads(on_ray.out) == json.loads(local.out)
    kept = [len(list((folder / name / "points").iterdir())) for name in ("local", "on-ray")]
    assert kept == [12, 12]
