"""The names that stay. Whatever else can be imported may move."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import schedbench

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
