from typing import Any

import pytest

from schedbench.cli.serve_args import parse_serve_args, refusal
from schedbench.cli.serve_flags import serve_flags
from schedbench.errors import SchedbenchError, UnsupportedError, UsageError


def used(line: str) -> dict[str, Any]:
    return parse_serve_args(line).used


def test_flags_of_the_scheduler_are_used_in_every_spelling_that_vllm_takes() -> None:
    line = (
        "vllm serve org/model --max-num-seqs 7 --max_num_batched_tokens=4k -pp 2 "
        "--no-enable-prefix-caching --scheduling-policy priority"
    )
    assert used(line) == {
        "max_num_seqs": "7",
        "max_num_batched_tokens": "4k",
        "pipeline_parallel_size": "2",
        "enable_prefix_caching": "off",
        "policy": "priority",
    }


@pytest.mark.parametrize(
    "start",
    [
        "vllm serve org/model",
        "vllm serve",
        "",
        "CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V1=1 vllm serve org/model",
        "/opt/venv/bin/vllm serve org/model \\\n ",
        "python -m vllm.entrypoints.openai.api_server --model org/model",
    ],
)
def test_a_command_line_may_begin_as_people_write_it(start: str) -> None:
    assert used(f"{start} --max-num-seqs 7") == {"max_num_seqs": "7"}


def test_flags_without_effect_are_listed_by_what_they_concern() -> None:
    line = "--host 0.0.0.0 --served-model-name a b --moe-backend triton -O3"
    assert parse_serve_args(line).without_effect == {
        "the HTTP front end": ["--host", "--served-model-name"],
        "how long a pass takes, beyond what the model of time knows": ["--moe-backend", "-O"],
    }


def test_flags_about_model_and_gpu_are_used_for_times_and_the_pool() -> None:
    line = (
        "vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2 --dtype half --enforce-eager "
        "--gpu-memory-utilization 0.85"
    )
    assert parse_serve_args(line).served == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "tensor_parallel_size": "2",
        "dtype": "float16",
        "enforce_eager": True,
        "gpu_memory_utilization": "0.85",
    }
    assert parse_serve_args("--model org/m --dtype auto").served == {"model": "org/m"}


def test_lora_has_vllms_default_of_one_slot_and_none_when_it_is_off() -> None:
    assert used("--enable-lora") == {"max_loras": "1"}
    assert used("--enable-lora --max-loras 4") == {"max_loras": "4"}
    assert used("--max-loras 4") == {}


def test_objects_are_taken_apart() -> None:
    speculation = '{"method": "eagle", "model": "org/draft", "num_speculative_tokens": 3}'
    transfer = '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}'
    line = f"vllm serve m --speculative-config '{speculation}' --kv-transfer-config '{transfer}'"
    assert used(line) == {
        "spec_method": "eagle",
        "num_speculative_tokens": "3",
        "kv_role": "kv_consumer",
    }


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("vllm serve m --data-parallel-size 2", UnsupportedError, "each engine schedules a share"),
        ("vllm serve m -dcp 2", UnsupportedError, "context parallelism"),
        (
            "vllm serve m --nonsense 1",
            UsageError,
            "`vllm serve` has no flag --nonsense in any release",
        ),
        ("vllm serve m --max-num-seq 1", UsageError, "did you mean --max-num-seqs?"),
        ("vllm serve m --max-num-seqs", UsageError, "--max-num-seqs stands without its value"),
        ("vllm bench serve --x 1", UsageError, "begins with `vllm serve`, or only its flags"),
        ("vllm serve 'm", UsageError, "No closing quotation"),
        ("--speculative-config 3", UsageError, "takes a JSON object"),
        (
            "--speculative-config '{\"tree\": 1}'",
            UnsupportedError,
            "the field tree is not modelled",
        ),
        ("--speculative-config '{\"num_speculative_tokens\": 1}'", UsageError, "state it"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    line: str, kind: type[SchedbenchError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_serve_args(line)
    assert said in str(caught.value)


def test_a_refused_flag_may_stand_with_the_value_that_changes_nothing() -> None:
    assert parse_serve_args("--data-parallel-size 1").used == {}


def test_every_flag_of_the_table_has_a_reason_that_can_be_shown() -> None:
    for name in serve_flags():
        assert (refusal(name) or "").startswith(name)


def test_a_flag_that_nobody_knows_has_no_reason() -> None:
    assert refusal("--nonsense") is None
