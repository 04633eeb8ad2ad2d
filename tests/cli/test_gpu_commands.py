"""The commands that need torch: what they say where it or a GPU is absent, and that they run."""

import importlib.util
from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.cli.main import run
from schedbench.results.stored_run import StoredRun

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
    assert "pip install '.[torch]'" in capsys.readouterr().err


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


TORCH = ("--runner", "torch", "--model", "tiny", "--device", "cpu")
TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_a_replay_of_forward_passes_is_decided_as_under_the_times_it_recorded(
    cli: Cli, small: Path
) -> None:
    ran = cli("replay", small, *TORCH, *TIGHT, "--attention", "loop", "--paranoid", "--out", "real")
    assert ran.code == 0, ran.err
    assert "attention loop" in ran.out
    assert cli("replay", small, "--recorded", "real", "--out", "again").code == 0
    real, again = StoredRun.open("real"), StoredRun.open("again")
    assert sum(real.passes().column("preempted").to_pylist())
    assert again.passes().equals(real.passes())
    details = real.manifest["runner_details"]
    assert (details["attention"], details["paranoid"]) == ("loop", True)
    assert details["self_check_error"] < 1e-4
    said = " ".join(cli("compare", "real", "again").out.split())
    assert "every pass equal, in decisions and in time" in said


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_transformers_own_model_decides_as_under_the_times_it_recorded(
    cli: Cli, small: Path
) -> None:
    pytest.importorskip("transformers")
    words = (*TORCH, *TIGHT, "--frontend", "hf", "--paranoid")
    ran = cli("replay", small, *words, "--out", "real")
    assert ran.code == 0, ran.err
    assert "forward passes of transformers' tiny" in ran.out
    assert cli("replay", small, "--recorded", "real", "--out", "again").code == 0
    real, again = StoredRun.open("real"), StoredRun.open("again")
    assert sum(real.passes().column("preempted").to_pylist())
    assert again.passes().equals(real.passes())
    assert "not tuned" in real.manifest["runner_details"]["ops"]


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--attention", "magic"], "--attention magic: it is one of auto"),
        (["--attention", "gather_varlen"], "needs a CUDA GPU"),
        (["--weights", "nowhere"], "--weights nowhere: no *.safetensors in it"),
        (["--zipf", "1.1"], "--zipf: tiny has no experts to route to"),
        (["--zipf", "much"], "--zipf"),
        (["--frontend", "jax"], "--frontend jax: it is own or hf"),
        (["--frontend", "hf", "--zipf", "1"], "--zipf is of our own router"),
        (["--spec-tokens", "2"], "--spec-tokens: the torch runner computes no adapters"),
        (["--max-loras", "2"], "--max-loras: the torch runner computes no adapters"),
    ],
)
def test_what_the_torch_runner_cannot_do_is_refused_by_the_option(
    cli: Cli, small: Path, words: list[str], said: str
) -> None:
    pytest.importorskip("safetensors")
    ran = cli("replay", small, *TORCH, *TIGHT, *words, "--no-store")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize("words", [["--attention", "loop"], ["--weights", "d"], ["--zipf", "1"],
                                   ["--paranoid"], ["--frontend", "hf"]])  # fmt: skip
def test_options_of_forward_passes_are_refused_where_there_are_none(
    cli: Cli, small: Path, words: list[str]
) -> None:
    ran = cli("replay", small, *words, "--no-store")
    assert ran.code == 2
    assert f"{words[0]} is of --runner torch and would have no effect" in ran.err
