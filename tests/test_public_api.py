"""The names that stay. Whatever else can be imported may move."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import schedbench
from schedbench.workloads.trace import Trace

NAMES = [
    "Policy",
    "Request",
    "SchedbenchError",
    "Scheduler",
    "SchedulerConfig",
    "Short",
    "State",
    "compare",
    "import_trace",
    "load_trace",
    "replay",
    "sweep",
]


def test_the_public_names_are_these() -> None:
    assert sorted(schedbench.__all__) == sorted(NAMES)
    assert set(NAMES) <= set(dir(schedbench))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_used_and_is_documented(name: str) -> None:
    assert getattr(schedbench, name).__doc__


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = schedbench.nonsense


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ["torch", "vllm", "typer", "rich", "numpy", "pyarrow"]
    script = (
        f"import json, sys, schedbench; print(json.dumps([n for n in {heavy} if n in sys.modules]))"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(out) == []


@pytest.mark.parametrize("name", ["max_num_seqs", "num_gpu_blocks", "max_num_batched_tokens"])
def test_counts_are_whole_numbers_of_any_kind(name: str) -> None:
    with pytest.raises(schedbench.SchedbenchError, match=r"--\S+ is 6000\.0: it is a whole number"):
        schedbench.SchedulerConfig(**{name: 6000.0})  # type: ignore[arg-type]
    config = schedbench.SchedulerConfig(**{name: np.int64(6000)})  # type: ignore[arg-type]
    assert type(getattr(config, name)) is int


def test_a_trace_is_replayed_and_swept_from_python(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n"
        "2023-11-16 18:15:50,396,109\n"
    )
    trace = schedbench.load_trace(path)
    run = schedbench.replay(trace, schedbench.SchedulerConfig(max_num_seqs=2))
    assert run.summary["requests_finished"] == 2
    outcomes = schedbench.sweep(trace, {"max_num_seqs": [1, 2]}, workers=1)
    assert [outcome.status for outcome in outcomes] == ["complete", "complete"]
    passes = [outcome.summary["passes"] for outcome in outcomes if outcome.summary]
    assert passes[1] == run.summary["passes"]


COLUMNS = {
    "arrival_ns": [0, 1_000_000, 2_000_000],
    "prompt_tokens": [900, 8, 20],
    "output_tokens": [16, 16, 4],
}


def test_runs_compare_as_replay_returned_them_or_by_their_folders(tmp_path: Path) -> None:
    flags = schedbench.SchedulerConfig(max_num_seqs=1, num_gpu_blocks=100, max_model_len=1024)
    first = schedbench.replay(COLUMNS)
    stored = schedbench.replay(COLUMNS, flags, out=tmp_path / "run")
    found = [
        schedbench.compare([first, other]).by_decisions
        for other in (schedbench.replay(COLUMNS, flags), stored, tmp_path / "run")
    ]
    assert found[0] == found[1] == found[2] != (None,)


@pytest.mark.parametrize("make", [dict, pa.table], ids=["a mapping", "a table"])
def test_a_table_is_replayed_as_the_trace_it_holds(make: Callable[[Any], Any]) -> None:
    given, trace = make(COLUMNS), Trace.from_columns(COLUMNS)
    assert schedbench.replay(given).passes == schedbench.replay(trace).passes
    (point,) = schedbench.sweep(given, {"max_num_seqs": [2]}, workers=1)
    assert point.status == "complete"


@pytest.mark.parametrize("wrong", [3, [1], object()], ids=["number", "list", "object"])
def test_what_is_no_trace_or_no_run_is_a_type_error_that_says_what_is_one(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"schedbench\.load_trace"):
        schedbench.replay(wrong)
    with pytest.raises(TypeError, match=r"schedbench\.replay"):
        schedbench.compare([schedbench.replay(COLUMNS), wrong])


def test_a_run_is_shown_in_a_line() -> None:
    shown = repr(schedbench.replay(COLUMNS))
    assert "3 requests, 3 finished" in shown
    assert len(shown) < 120


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import schedbench\nschedbench.sweep({COLUMNS}, {{'max_num_seqs': [1, 2]}}, workers=2)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert 'if __name__ == "__main__":' in ran.stderr.splitlines()[-1]
    assert "memory" not in ran.stderr.splitlines()[-1]
