import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Cli

from schedbench.cli.serving import known_model
from schedbench.results.stored_run import StoredRun
from schedbench.runner import gpus
from schedbench.runner.deployment import Deployment
from schedbench.runner.latency.hardware import GPUS
from schedbench.runner.models import BUILT_IN

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")


def manifest(cli: Cli, small: Path, *words: str) -> dict[str, Any]:
    """What a replay with these options says of itself."""
    ran = cli("replay", small, *words, "--out", "r")
    assert ran.code == 0, ran.err
    return StoredRun.open("r").manifest


def test_times_are_modelled_for_an_8b_model_on_an_h100_and_called_an_estimate(
    cli: Cli, small: Path
) -> None:
    ran = cli("replay", small, *TIGHT, "--no-store")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("time")]
    assert "roofline for llama-3.1-8b on H100-SXM: an estimate, fitted to nothing" in line
    assert "--model llama-3.1-8b  --gpu H100-SXM" in ran.out


def test_a_typed_cost_gives_logical_time(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT, "--cost", "pass:1ms", "--no-store")
    assert "\ntime     logical, pass:1ms\n" in ran.out


def test_pool_and_size_of_a_pass_follow_from_model_and_gpu(cli: Cli, small: Path) -> None:
    found = manifest(cli, small, "--model", "qwen3-8b", "--gpu", "L40S", "--max-model-len", "4K")
    flags = found["scheduler"]
    assert (flags["max_num_batched_tokens"], flags["max_num_seqs"]) == (2048, 256)
    planned = Deployment(model="qwen3-8b", gpu="L40S").pool({"max_model_len": 4096})
    assert planned is not None
    assert flags["num_gpu_blocks"] == planned.num_gpu_blocks
    assert found["deployment"] == {"model": "qwen3-8b", "gpu": "L40S"}


def test_the_longest_sequence_is_the_models(cli: Cli, small: Path) -> None:
    assert manifest(cli, small, "--model", "qwen3-8b")["scheduler"]["max_model_len"] == 40_960


def test_a_servers_command_line_says_model_and_gpus_too(cli: Cli, small: Path) -> None:
    line = "vllm serve Qwen/Qwen3-8B -tp 2 --gpu-memory-utilization 0.8"
    found = manifest(cli, small, "--serve-args", line, "--gpu-memory-utilization", "0.7")
    assert found["deployment"] == {
        "model": "qwen3-8b",
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.7,
    }


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b"),
        ("tiny", "tiny"),
        ("org/Llama-3.1-8B-Instruct-AWQ", None),
        ("mistralai/Mistral-7B-v0.3", None),
    ],
)
def test_models_are_known_by_their_public_names(name: str, known: str | None) -> None:
    assert known_model(name) == known


def test_config_shows_each_term_of_the_pool(cli: Cli) -> None:
    ran = cli("config", "--gpu", "H200")
    assert "weights                 14.99 GiB" in ran.out
    assert "num_gpu_blocks          56,998 = kv_cache // block" in ran.out
    assert "max_num_seqs            vLLM's default for 70 GiB or more" in ran.out
    data = json.loads(cli("config", "--gpu", "H200", "--json").out)
    assert data["pool"][-3]["value"] == 56_998
    given = json.loads(cli("config", "--num-gpu-blocks", "100", "--json").out)
    assert given["pool"] == []


def test_a_context_that_the_pool_cannot_hold_is_warned_of(cli: Cli) -> None:
    ran = cli("config", "--gpu", "L4")
    assert "vLLM would not start; give --max-model-len 37680" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "gpt-9"], "--model gpt-9: no built-in model"),
        (["--gpu", "H900"], "--gpu H900: not in the table; there are H100-SXM"),
        (["--runner", "magic"], "--runner magic: it is clock, model or torch"),
        (["--dtype", "int3"], "--dtype int3: it is one of bfloat16"),
        (["--profile", "none.json"], "--profile none.json: cannot be read"),
        (["--recorded", "nowhere"], "nowhere is not a run"),
        (["--device", "cpu"], "no effect without it; give --runner torch too"),
        (["--paranoid"], "--paranoid is of --runner torch and would have no effect without it"),
        (["--zipf", "1", "--runner", "model"], "no effect with --runner model; leave one out"),
        (["--cost", "pass:1ms", "--runner", "model"], "--cost is of --runner clock"),
        (["--cost", "pass:1ms", "--profile", "p.json"], "would have no effect with --cost"),
        (["--runner", "torch", "--gpu", "H100"], "--gpu would have no effect"),
        (["--runner", "torch", "-tp", "2"], "--runner torch times one GPU"),
        (["-tp", "3"], "--tensor-parallel-size 3 does not divide the 32 attention heads"),
        (["--gpu-memory-utilization", "1.5"], "it must be above 0 to 1"),
        (["--model", "llama-3.1-70b"], "Raise --gpu-memory-utilization or --tensor-parallel-size"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    cli: Cli, small: Path, words: list[str], said: str
) -> None:
    ran = cli("replay", small, *words, "--no-store")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_recorded_times_make_the_same_run_again_without_its_flags(cli: Cli, small: Path) -> None:
    cli("replay", small, *TIGHT, "--max-num-seqs", "9", "--out", "first")
    ran = cli("replay", small, "--recorded", "first", "--out", "again")
    assert ran.code == 0
    first, again = StoredRun.open("first"), StoredRun.open("again")
    assert again.passes().equals(first.passes())
    assert again.manifest["scheduler"] == first.manifest["scheduler"]
    assert "recorded times of first" in ran.out
    assert "assumed" not in ran.out
    ran = cli("replay", small, "--recorded", "first", "--max-num-seqs", "2", "--no-store")
    assert (ran.code, "recorded times fit only the trace and the flags" in ran.err) == (2, True)


def test_a_sweep_varies_gpus_and_derives_the_rest_anew(cli: Cli, small: Path) -> None:
    ran = cli("sweep", small, "--gpu", "L40S,H100", "-tp", "1,2", "--jobs", "1", "--out", "kept",
              "--json")  # fmt: skip
    found = [each["flags"] for each in json.loads(ran.out)]
    assert found == [
        {"gpu": gpu, "tensor-parallel-size": size} for gpu in ("L40S", "H100") for size in (1, 2)
    ]
    runs = [StoredRun.open(path).manifest for path in Path("kept/points").iterdir()]
    assert len({run["scheduler"]["num_gpu_blocks"] for run in runs}) == 4
    assert {run["scheduler"]["max_num_seqs"] for run in runs} == {256, 1024}
    assert "--num-gpu-blocks (anew at each point)" in ran.err


def test_the_sample_has_a_pool_of_its_own_unless_one_is_asked_for(cli: Cli) -> None:
    ran = cli("replay", "--limit", "5", "--no-store")
    assert "on a pool of 2,500 KV blocks, which its traffic fills" in ran.err
    assert "--num-gpu-blocks 2500" in ran.out
    ran = cli("replay", "--limit", "5", "--no-store", "--gpu", "H200")
    assert "56,997 blocks" in ran.out


def test_a_gpu_that_is_there_and_not_used_is_told_of(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is seen and not used" not in cli("replay", small, *TIGHT, "--no-store").err
    monkeypatch.setattr("schedbench.runner.gpus.seen_gpu", lambda: "NVIDIA H200")
    ran = cli("replay", small, *TIGHT, "--no-store")
    assert "note: NVIDIA H200 is seen and not used; --runner torch" in ran.err


def test_a_gpu_is_seen_by_its_device_file_and_named_by_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, driver = tmp_path / "nvidia0", tmp_path / "gpus"
    assert gpus.seen_gpu(device, driver) is None
    device.touch()
    assert gpus.seen_gpu(device, driver) == gpus.NAMELESS
    (driver / "0000:1a:00.0").mkdir(parents=True)
    (driver / "0000:1a:00.0" / "information").write_text("Model: \t NVIDIA L4\nIRQ: 1\n")
    assert gpus.seen_gpu(device, driver) == "NVIDIA L4"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus.seen_gpu(device, driver) is None


def test_help_names_every_built_in_model_and_gpu(cli: Cli) -> None:
    text = " ".join(cli("replay", "--help").out.split())
    assert f"({', '.join(BUILT_IN)})" in text
    assert ", ".join(gpu.name for gpu in GPUS) in text
