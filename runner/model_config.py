"""A model's `config.json`, read or refused.

A field that changes what attention computes or how wide a KV entry is, and that is not modelled
here, is refused by its name: a config that is taken is timed as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from schedbench.errors import UnsupportedError, UsageError
from schedbench.runner.models import ModelSpec, MoeSpec, RopeScaling, built_in

if TYPE_CHECKING:
    from collections.abc import Mapping

DENSE: Final = ("llama", "mistral", "qwen2", "qwen3")
MIXTURES: Final = ("mixtral", "qwen3_moe")
FAMILIES: Final = (*DENSE, *MIXTURES)
_ATTENTION: Final = {
    "attn_logit_softcapping": "a soft cap on attention scores",
    "kv_lora_rank": "multi-head latent attention, whose cache holds no heads",
    "q_lora_rank": "multi-head latent attention",
    "qk_rope_head_dim": "heads of which only a part is rotated",
    "attention_chunk_size": "chunked attention",
    "quantization_config": "quantised weights",
    "vision_config": "a vision tower",
    "attention_sinks": "attention sinks",
    "sinks": "attention sinks",
}
_OWN_DECODER: Final = {
    "final_logit_softcapping": "a soft cap on logits",
    "shared_expert_intermediate_size": "a shared expert",
    "n_shared_experts": "shared experts",
}


def load_model(model: str | Path) -> ModelSpec:
    """A built-in name, a `config.json`, or the folder that holds one.

    Raises:
        UsageError: neither a built-in name nor a readable config.
        UnsupportedError: the config has a field that is not modelled; it is named.
    """
    path = Path(model)
    if path.is_dir():
        path /= "config.json"
    if not path.is_file():
        return built_in(str(model))
    try:
        config = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--model {model}: {path} is no JSON: {error}") from error
    return from_config(config, name=path.resolve().parent.name)


def from_config(config: dict[str, Any], name: str = "") -> ModelSpec:
    """Make a spec of a parsed `config.json`, as transformers 4 or 5 writes it.

    Raises:
        UsageError: a width that is needed is missing.
        UnsupportedError: an architecture or a field that is not modelled.
    """
    _refuse(config)
    try:
        return _spec(config, name)
    except KeyError as error:
        raise UsageError(f"the model config lacks {error.args[0]}") from error


def _spec(config: dict[str, Any], name: str) -> ModelSpec:
    heads = config["num_attention_heads"]
    family = config["model_type"]
    rope = _rope(config)
    return ModelSpec(
        name=name or config.get("_name_or_path") or family,
        family=family,
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        intermediate_size=config["intermediate_size"],
        vocab_size=config["vocab_size"],
        max_position_embeddings=config["max_position_embeddings"],
        rope_theta=_rope_theta(rope, config),
        rms_norm_eps=config["rms_norm_eps"],
        tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2",
        qk_norm=family.startswith("qwen3"),
        rope_scaling=_rope_scaling(rope),
        moe=_moe(config) if family in MIXTURES else None,
    )


def _rope_theta(*places: dict[str, Any]) -> float:
    """The first that is stated; 10,000 is what transformers takes where none is."""
    stated = [each["rope_theta"] for each in places if each.get("rope_theta") is not None]
    return float(stated[0]) if stated else 10000.0


def _moe(config: dict[str, Any]) -> MoeSpec:
    if config["model_type"] == "mixtral":
        return MoeSpec(
            config["num_local_experts"], config["num_experts_per_tok"], config["intermediate_size"]
        )
    return MoeSpec(
        config.get("num_experts") or config["num_local_experts"],
        config["num_experts_per_tok"],
        config["moe_intermediate_size"],
        bool(config.get("norm_topk_prob", False)),
    )


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """Transformers 5 keeps everything in `rope_parameters`, older ones in `rope_scaling`."""
    return dict(config.get("rope_parameters") or config.get("rope_scaling") or {})


def _rope_scaling(rope: dict[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise UnsupportedError(f"the model config's rope scaling {kind!r}: only llama3 is modelled")
    return RopeScaling(
        float(rope["factor"]),
        float(rope["low_freq_factor"]),
        float(rope["high_freq_factor"]),
        int(rope["original_max_position_embeddings"]),
    )


def _refuse(config: dict[str, Any]) -> None:
    """Stop at the first field that changes attention, widths or weights in a way not modelled."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UnsupportedError(
            f"the model config's model_type {family!r}: modelled are {', '.join(FAMILIES)}; "
            "--runner torch --frontend hf runs some more"
        )
    _refuse_fields(config, _OWN_DECODER)
    refuse_attention(config)
    _refuse_layers(config)


def refuse_attention(config: dict[str, Any]) -> None:
    """Raises UnsupportedError at a field by which attention, or its cache, is another."""
    _refuse_fields(config, _ATTENTION)
    _refuse_windows(config)
    _refuse_widths(config)


def _refuse_fields(config: dict[str, Any], fields: Mapping[str, str]) -> None:
    for field, meaning in fields.items():
        if config.get(field):
            raise UnsupportedError(
                f"the model config's {field} ({config[field]!r}): {meaning} is not modelled"
            )


def _refuse_windows(config: dict[str, Any]) -> None:
    window = config.get("sliding_window")
    if window is not None and config.get("use_sliding_window", True):
        raise UnsupportedError(
            f"the model config's sliding_window ({window}): attention over a window is not modelled"
        )
    kinds = set(config.get("layer_types") or ()) - {"full_attention"}
    if kinds:
        raise UnsupportedError(
            f"the model config's layer_types: {', '.join(sorted(kinds))} is not modelled"
        )


def _refuse_widths(config: dict[str, Any]) -> None:
    head_dim = config.get("head_dim")
    for field in ("v_head_dim", "qk_head_dim", "qk_nope_head_dim"):
        if config.get(field) not in (None, head_dim):
            raise UnsupportedError(
                f"the model config's {field} ({config[field]}) differs from head_dim ({head_dim}): "
                "keys and values of unequal width are not modelled"
            )
    heads, kv_heads = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if heads and kv_heads and heads % kv_heads:
        raise UnsupportedError(
            f"the model config's num_key_value_heads ({kv_heads}) does not divide "
            f"num_attention_heads ({heads})"
        )


def _refuse_layers(config: dict[str, Any]) -> None:
    if config.get("partial_rotary_factor", 1.0) not in (None, 1.0):
        raise UnsupportedError(
            f"the model config's partial_rotary_factor ({config['partial_rotary_factor']}): heads "
            "of which only a part is rotated are not modelled"
        )
    if config.get("hidden_act", "silu") != "silu":
        raise UnsupportedError(
            f"the model config's hidden_act {config['hidden_act']!r}: only silu is modelled"
        )
    _refuse_biases(config)


def _refuse_biases(config: dict[str, Any]) -> None:
    """Only qwen2 has biases here, on query, key and value; its config does not mention them."""
    for field in ("attention_bias", "mlp_bias"):
        if config.get(field):
            raise UnsupportedError(f"the model config's {field}: such biases are not modelled")
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise UnsupportedError(
            "the model config's mlp_only_layers or decoder_sparse_step: a mixture of experts in "
            "only some of the layers is not modelled"
        )
