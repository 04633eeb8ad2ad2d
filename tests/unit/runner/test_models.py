from pathlib import Path
from typing import Any

import pytest

from schedbench.errors import UnsupportedError, UsageError
from schedbench.runner.model_config import from_config, load_model
from schedbench.runner.models import BUILT_IN, MoeSpec

GIB = 2**30
QWEN3 = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rope_scaling": None,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "sliding_window": None,
    "use_sliding_window": False,
    "hidden_act": "silu",
}


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-30b-a3b", 30_532_122_624),
    ],
)
def test_a_built_in_model_has_as_many_parameters_as_its_public_card_says(
    name: str, params: int
) -> None:
    assert BUILT_IN[name].num_params == params


def test_the_weights_of_llama_3_1_8b_take_what_vllm_logs() -> None:
    assert round(BUILT_IN["llama-3.1-8b"].weight_bytes() / GIB, 4) == 14.9888


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("llama-3.1-8b", 131_072),
        ("qwen3-8b", 147_456),
        ("qwen3-0.6b", 114_688),
        ("llama-3.1-70b", 327_680),
    ],
)
def test_a_token_takes_two_vectors_a_layer_and_kv_head(name: str, bytes_per_token: int) -> None:
    assert BUILT_IN[name].kv_bytes_per_token() == bytes_per_token


def test_kv_heads_are_replicated_when_there_are_more_gpus_than_heads() -> None:
    assert BUILT_IN["llama-3.1-8b"].kv_heads_per_rank(16) == 1


def test_three_of_thirty_billion_parameters_are_active_in_the_mixture() -> None:
    spec = BUILT_IN["qwen3-30b-a3b"]
    active = spec.num_layers * spec.active_layer_params + 2 * spec.embedding_params
    assert 3.2e9 < active < 3.5e9


def test_one_token_reads_top_k_experts_and_many_tokens_read_all() -> None:
    moe = MoeSpec(num_experts=128, top_k=8, intermediate_size=768)
    assert moe.distinct_experts(1) == pytest.approx(8)
    assert moe.distinct_experts(4096) == pytest.approx(128)


def test_a_public_config_gives_the_built_in_spec() -> None:
    assert from_config(QWEN3, name="qwen3-0.6b") == BUILT_IN["qwen3-0.6b"]


def test_a_config_as_transformers_5_writes_it_gives_the_same_spec() -> None:
    config = {**QWEN3, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}
    del config["rope_theta"], config["rope_scaling"]
    assert from_config(config, name="qwen3-0.6b") == BUILT_IN["qwen3-0.6b"]


def test_a_window_that_is_switched_off_is_taken() -> None:
    spec = from_config({**QWEN3, "sliding_window": 32768, "use_sliding_window": False})
    assert spec.num_layers == 28


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "gpt_oss"}, "gpt_oss"),
        ({"model_type": "gemma2"}, "gemma2"),
        ({"model_type": "deepseek_v3"}, "deepseek_v3"),
        (
            {"model_type": "mistral", "sliding_window": 4096, "use_sliding_window": True},
            "sliding_window",
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({"attention_sinks": True}, "attention_sinks"),
        ({"v_head_dim": 64}, "v_head_dim"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_only_layers": [3]}, "mlp_only_layers"),
    ],
)
def test_a_field_that_is_not_modelled_is_refused_by_its_name(
    change: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedError, match=named):
        from_config({**QWEN3, **change})


def test_a_missing_width_is_named() -> None:
    config = {key: value for key, value in QWEN3.items() if key != "vocab_size"}
    with pytest.raises(UsageError, match="vocab_size"):
        from_config(config)


def test_an_unknown_name_lists_the_built_in_models() -> None:
    with pytest.raises(UsageError, match=r"llama-3\.1-8b"):
        load_model("llama-9b")


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match="JSON"):
        load_model(tmp_path)
