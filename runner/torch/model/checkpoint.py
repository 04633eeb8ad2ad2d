"""Read a local safetensors checkpoint, shard by shard, into the fused weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import torch

from schedbench.errors import UsageError
from schedbench.results.extras import remedy
from schedbench.runner.torch.model.weights import LayerWeights, Weights

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from schedbench.runner.models import ModelSpec

_EXPERTS = {"mixtral": ("block_sparse_moe", "w1", "w3", "w2")}
_QWEN_EXPERTS = ("mlp", "gate_proj", "up_proj", "down_proj")


class Checkpoint:
    """The tensors of a folder of `*.safetensors`, by their names in the hub's layout.

    Raises:
        UsageError: safetensors is not installed, or the folder has no such file.
    """

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        try:
            from safetensors import safe_open  # noqa: PLC0415 - only real weights need it
        except ImportError as error:
            raise UsageError(
                f"reading weights needs safetensors: {remedy('safetensors')}"
            ) from error
        self._open = safe_open
        self._folder, self._device, self._dtype = folder, device, dtype
        self._file_of = self._names(folder)
        self._handles: dict[Path, Any] = {}

    def _names(self, folder: Path) -> dict[str, Path]:
        index = folder / "model.safetensors.index.json"
        if index.is_file():
            entries = orjson.loads(index.read_bytes())["weight_map"]
            return {name: folder / file for name, file in entries.items()}
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise UsageError(f"--weights {folder}: no *.safetensors in it")
        found = {}
        for file in files:
            with self._open(file, framework="pt") as handle:
                found.update(dict.fromkeys(handle.keys(), file))
        return found

    def get(self, name: str) -> torch.Tensor:
        """One tensor, on the device and in the dtype. Raises UsageError where it is missing."""
        file = self._file_of.get(name)
        if file is None:
            raise UsageError(f"--weights {self._folder}: the checkpoint has no tensor {name}")
        handle = self._handles.get(file)
        if handle is None:
            handle = self._open(file, framework="pt", device=str(self._device))
            self._handles[file] = handle
        return handle.get_tensor(name).to(self._dtype)

    def fused(self, names: Sequence[str]) -> torch.Tensor:
        """Tensors one below the other."""
        return torch.cat([self.get(name) for name in names])

    def __contains__(self, name: str) -> bool:
        return name in self._file_of


def load_weights(
    spec: ModelSpec, folder: Path, device: torch.device, dtype: torch.dtype
) -> Weights:
    """Read all weights of a model.

    Raises:
        UsageError: a tensor is missing, or has another shape than the config says.
    """
    source = Checkpoint(folder, device, dtype)
    embed = source.get("model.embed_tokens.weight")
    weights = Weights(
        embed=embed,
        layers=[_layer(spec, source, index) for index in range(spec.num_layers)],
        norm=source.get("model.norm.weight"),
        head=embed if spec.tie_word_embeddings else source.get("lm_head.weight"),
    )
    _check(spec, weights, folder)
    return weights


def _layer(spec: ModelSpec, source: Checkpoint, index: int) -> LayerWeights:
    at = f"model.layers.{index}"
    qkv = [f"{at}.self_attn.{name}_proj" for name in ("q", "k", "v")]
    gate_up, down, router = _feed_forward(spec, source, at)
    return LayerWeights(
        attn_norm=source.get(f"{at}.input_layernorm.weight"),
        qkv=source.fused([f"{name}.weight" for name in qkv]),
        o=source.get(f"{at}.self_attn.o_proj.weight"),
        mlp_norm=source.get(f"{at}.post_attention_layernorm.weight"),
        gate_up=gate_up,
        down=down,
        qkv_bias=source.fused([f"{name}.bias" for name in qkv]) if spec.qkv_bias else None,
        q_norm=source.get(f"{at}.self_attn.q_norm.weight") if spec.qk_norm else None,
        k_norm=source.get(f"{at}.self_attn.k_norm.weight") if spec.qk_norm else None,
        router=router,
    )


def _feed_forward(
    spec: ModelSpec, source: Checkpoint, at: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    if spec.moe is None:
        gate_up = source.fused([f"{at}.mlp.gate_proj.weight", f"{at}.mlp.up_proj.weight"])
        return gate_up, source.get(f"{at}.mlp.down_proj.weight"), None
    room, gate, up, down = _EXPERTS.get(spec.family, _QWEN_EXPERTS)
    experts = [f"{at}.{room}.experts.{index}" for index in range(spec.moe.num_experts)]
    gate_ups = [source.fused([f"{e}.{gate}.weight", f"{e}.{up}.weight"]) for e in experts]
    downs = [source.get(f"{e}.{down}.weight") for e in experts]
    return torch.stack(gate_ups), torch.stack(downs), source.get(f"{at}.{room}.gate.weight")


def _check(spec: ModelSpec, weights: Weights, folder: Path) -> None:
    """Hold the shapes to the spec before anything is computed with them."""
    layer = weights.layers[0]
    for what, tensor, shape in (
        ("embed_tokens", weights.embed, (spec.vocab_size, spec.hidden_size)),
        ("q, k and v", layer.qkv, (spec.qkv_width, spec.hidden_size)),
        ("o_proj", layer.o, (spec.hidden_size, spec.num_heads * spec.head_dim)),
    ):
        if tuple(tensor.shape) != shape:
            raise UsageError(
                f"--weights {folder}: {what} is {tuple(tensor.shape)}, and the config says {shape}"
            )
