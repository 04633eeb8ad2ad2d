"""What small models of transformers' families are made with, beside the oracle's own fields."""

from __future__ import annotations

from typing import Any, Final

_EXPERTS: Final = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
HF_FIELDS: dict[str, dict[str, Any]] = {
    "ernie4_5_moe": {"moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 48},
    "gemma": {"head_dim": 32},
    "glm4_moe": {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
    "gpt2": {
        "n_embd": 64,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 2048,
        "n_inner": 96,
        "num_key_value_heads": 4,
    },
    "gpt_neox": {"num_key_value_heads": 4},
    "granite": {"attention_multiplier": 0.3, "residual_multiplier": 0.4},
    "granitemoe": {"num_local_experts": 8, "num_experts_per_tok": 2, "attention_multiplier": 0.3},
    "olmoe": {"num_experts": 8, "num_experts_per_tok": 2},
    "opt": {"num_key_value_heads": 4, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "phi3": {"pad_token_id": 0},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 48},
    "qwen3_moe": _EXPERTS,
    "seed_oss": {"head_dim": 32},
    "smollm3": {"pad_token_id": 0, "no_rope_layers": [1, 0, 1]},
}
