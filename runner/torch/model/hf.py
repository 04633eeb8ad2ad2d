"""The decoder that transformers has, with attention over our paged cache: for breadth.

transformers asks a registry for the attention that a model is made with. Ours puts the keys and
values of a pass into their slots and attends over the blocks, so that any model goes through which
computes nothing else across tokens. Nothing is fused and no graph is captured: not tuned.

A model type is admitted once its logits equal those of transformers' own dense pass, through
chunks, shared prefixes and evictions (`tests/unit/runner/test_torch_hf.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import torch

from schedbench.errors import UnsupportedError, UsageError
from schedbench.results.extras import remedy
from schedbench.runner.model_config import refuse_attention
from schedbench.runner.models import CountedSpec, ModelSpec, MoeSpec, built_in

if TYPE_CHECKING:
    from schedbench.runner.torch.attn.interface import Attention, AttnInput
    from schedbench.runner.torch.model.decoder import Tokens

FAMILIES: Final = (
    "arcee", "cohere", "ernie4_5_moe", "gemma", "glm4_moe", "gpt2", "gpt_neox", "granite",
    "granitemoe", "llama", "mistral", "mixtral", "olmo2", "olmoe", "opt", "phi", "phi3",
    "phimoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "starcoder2",
)  # fmt: skip
NAME: Final = "schedbench_paged"  # of our attention in transformers' registry
KEYWORD: Final = "schedbench_pass"  # in which a pass reaches it
REFUSED: Final = {
    "sliding_window": "a window",
    "softcap": "a soft cap on scores",
    "s_aux": "attention sinks",
}


def hf_spec(model: str | Path) -> ModelSpec:
    """Widths of a model of any admitted type; its parameters are counted, not worked out.

    Raises:
        UsageError: transformers is absent, or the model is neither a built-in name nor a config.
        UnsupportedError: a type that is not admitted, or a field that attention does not model.
    """
    config = hf_config(model)
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in _untrained(config, None).parameters())
    heads = config.num_attention_heads
    return CountedSpec(
        name=_name(model),
        family=config.model_type,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=heads,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        intermediate_size=_feed_forward_width(config),
        vocab_size=config.vocab_size,
        max_position_embeddings=config.max_position_embeddings,
        rope_theta=0.0,  # transformers rotates and norms by itself
        rms_norm_eps=0.0,
        moe=_moe(config),
        counted_params=parameters,
    )


def hf_config(model: str | Path) -> Any:  # noqa: ANN401 - transformers is not typed
    """The configuration of a built-in name, a `config.json` or the folder that holds one."""
    transformers = _transformers()
    path = Path(model)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        return _of_built_in(built_in(str(model)))
    try:
        fields = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--model {model}: {file} is no JSON: {error}") from error
    family = fields.get("model_type")
    if family not in FAMILIES:
        raise UnsupportedError(
            f"the model config's model_type {family!r}: --frontend hf is tested with "
            f"{', '.join(FAMILIES)}"
        )
    refuse_attention(fields)
    return transformers.AutoConfig.from_pretrained(file.parent, local_files_only=True)


def _of_built_in(spec: ModelSpec) -> Any:  # noqa: ANN401
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": spec.rope_theta}
    if (scaling := spec.rope_scaling) is not None:
        rope |= {"rope_type": "llama3"} | {
            name: getattr(scaling, name) for name in scaling.__slots__
        }
    experts = {}
    if spec.moe is not None:
        experts = {
            "num_experts": spec.moe.num_experts,
            "num_experts_per_tok": spec.moe.top_k,
            "moe_intermediate_size": spec.moe.intermediate_size,
            "norm_topk_prob": spec.moe.norm_topk_prob,
        }
    return _transformers().AutoConfig.for_model(
        spec.family,
        hidden_size=spec.hidden_size,
        num_hidden_layers=spec.num_layers,
        num_attention_heads=spec.num_heads,
        num_key_value_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        intermediate_size=spec.intermediate_size,
        vocab_size=spec.vocab_size,
        max_position_embeddings=spec.max_position_embeddings,
        rms_norm_eps=spec.rms_norm_eps,
        tie_word_embeddings=spec.tie_word_embeddings,
        rope_parameters=rope,
        **experts,
    )


@dataclass(slots=True)
class HfDecoder:
    """A model of transformers and its cache, `[layers, 2, blocks, block_size, Hkv, D]`."""

    spec: ModelSpec
    model: Any
    cache: torch.Tensor
    attention: Attention

    def forward(self, tokens: Tokens, batch: AttnInput) -> torch.Tensor:
        """Logits of the sampled rows, `[S, vocab]`; the cache gets the pass's keys and values."""
        made = _Pass(self.cache, self.attention, tokens.slots.long(), batch)
        found = self.model(
            input_ids=tokens.ids[None].long(),
            position_ids=tokens.positions[None].long(),
            use_cache=False,
            logits_to_keep=0 if tokens.sample is None else tokens.sample.long(),
            **{KEYWORD: made},
        )
        if len(made.layers) != self.spec.num_layers:
            kind = type(self.model).__name__
            raise UnsupportedError(
                f"--frontend hf: {kind} has {self.spec.num_layers} layers, and {len(made.layers)} "
                "of them asked for our attention"
            )
        return found.logits[0]

    def details(self) -> dict[str, object]:
        """What a manifest says of it."""
        weights = {weight.data_ptr(): weight for weight in self.model.parameters()}
        return {
            "frontend": "hf",
            "ops": f"transformers {_transformers().__version__}, not tuned",
            "weight_bytes": sum(each.numel() * each.element_size() for each in weights.values()),
        }


@dataclass(slots=True)
class _Pass:
    """What attention needs of a pass, and which layers have asked for it."""

    cache: torch.Tensor
    attention: Attention
    slots: torch.Tensor  # [T]
    batch: AttnInput
    layers: set[int] = field(default_factory=set)


def paged_attention(
    module: Any,  # noqa: ANN401
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    **keywords: Any,  # noqa: ANN401
) -> tuple[torch.Tensor, None]:
    """One layer: `query [1, H, T, D]`, `key` and `value` `[1, Hkv, T, D]`; returns `[1, T, H, D]`.

    Raises:
        UnsupportedError: something that would change what attention computes.
    """
    _refuse(module, key, value, attention_mask, keywords)
    made: _Pass = keywords[KEYWORD]
    made.layers.add(module.layer_idx)
    keys, values = made.cache[module.layer_idx]
    keys.flatten(0, 1).index_copy_(0, made.slots, key[0].transpose(0, 1))
    values.flatten(0, 1).index_copy_(0, made.slots, value[0].transpose(0, 1))
    q = query[0].transpose(0, 1)
    usual = q.shape[-1] ** -0.5  # by which our attention scales
    if scaling is not None and scaling != usual:
        q = q * (scaling / usual)
    return made.attention(q.contiguous(), keys, values, made.batch)[None], None


def _refuse(
    module: Any,  # noqa: ANN401
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    keywords: dict[str, Any],
) -> None:
    kind = type(module).__name__
    for name, meaning in REFUSED.items():
        if keywords.get(name) is not None:
            raise UnsupportedError(f"--frontend hf: {kind} attends with {meaning} ({name})")
    if key.shape != value.shape:
        raise UnsupportedError(
            f"--frontend hf: {kind} has keys of width {key.shape[-1]} and values of "
            f"{value.shape[-1]}; a block holds both in one width"
        )
    if attention_mask is not None or not getattr(module, "is_causal", True):
        raise UnsupportedError(f"--frontend hf: {kind} is not plainly causal")


def make_hf_model(
    model: str | Path,
    weights: Path | None,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
) -> Any:  # noqa: ANN401
    """The model on the device, with random weights or those of a folder.

    Raises:
        UsageError: the folder has no such weights; what is missing is named.
    """
    config = hf_config(model)
    if weights is not None:
        made = _trained(config, weights, dtype).to(device)
    else:
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices), device:
            torch.manual_seed(seed)
            made = _untrained(config, dtype)
    return made.eval().requires_grad_(requires_grad=False)


def _untrained(config: Any, dtype: torch.dtype | None) -> Any:  # noqa: ANN401
    made = _transformers().AutoModelForCausalLM
    return made.from_config(config, attn_implementation=NAME, dtype=dtype)


def _trained(config: Any, weights: Path, dtype: torch.dtype) -> Any:  # noqa: ANN401
    if not any(weights.glob("*.safetensors")):
        raise UsageError(f"--weights {weights}: no *.safetensors in it")
    transformers = _transformers()
    try:
        made, told = transformers.AutoModelForCausalLM.from_pretrained(
            weights,
            config=config,
            attn_implementation=NAME,
            dtype=dtype,
            local_files_only=True,
            output_loading_info=True,
        )
    except (RuntimeError, OSError, ValueError) as error:
        raise UsageError(f"--weights {weights}: {str(error).splitlines()[0]}") from error
    if missing := sorted(told["missing_keys"]):
        raise UsageError(f"--weights {weights}: the checkpoint has no tensor {missing[0]}")
    return made


def _transformers() -> Any:  # noqa: ANN401
    if find_spec("transformers") is None:
        raise UsageError(
            "--frontend hf needs transformers, which is not installed: "
            f"{remedy('transformers')}, or leave it out for our own decoder"
        )
    import transformers  # noqa: PLC0415 - seconds to import

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    transformers.AttentionInterface.register(NAME, paged_attention)
    return transformers


def _name(model: str | Path) -> str:
    path = Path(model)
    if not path.exists():
        return built_in(str(model)).name
    return (path if path.is_dir() else path.parent).resolve().name


def _feed_forward_width(config: Any) -> int:  # noqa: ANN401
    for name in ("intermediate_size", "n_inner", "ffn_dim"):
        if width := getattr(config, name, None):
            return int(width)
    return 4 * int(config.hidden_size)


def _moe(config: Any) -> MoeSpec | None:  # noqa: ANN401
    counts = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    experts = next((n for each in counts if (n := getattr(config, each, None))), 0)
    if not experts:
        return None
    top_k = getattr(config, "num_experts_per_tok", None) or config.moe_k
    width = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
    return MoeSpec(experts, top_k, width)
