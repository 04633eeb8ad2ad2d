"""The commands that need torch: what they say where it or a GPU is absent, and that they run."""

import importlib.util
from pathlib import Path

import pytest

from schedbench.cli.main import run

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.parametrize("command", ["profile", "check-gpu"])
def test_without_torch_the_remedy_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else real(name)
    )
    assert run([command]) == 2
    assert "pip install 'schedbench[torch]'" in capsys.readouterr().err


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_profile_writes_a_profile_on_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("torch").set_num_threads(1)
    small = "--max-num-batched-tokens 64 --max-num-seqs 4 --max-model-len 256 --held-out 3"
    words = ["profile", "--model", "tiny", "--device", "cpu", *small.split()]
    assert run([*words, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "grid: " in said
    assert "held out: 3 passes" in said
    assert len(list(tmp_path.glob("tiny--*.json"))) == 1


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_an_unknown_model_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("scipy")
    assert run(["profile", "--model", "gpt-5"]) == 2
    assert "llama-3.1-8b" in capsys.readouterr().err
