"""The decoder: one forward pass over packed tokens and a paged cache.

    embed -> [ norm -> qkv -> rotate, store -> attention -> o (+)
               norm -> gate, up -> silu -> down (+) ] x layers -> norm -> head of sampled rows

(+) adds to the residual stream inside the product, so that no launch is spent on the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch.nn.functional import embedding, linear, rms_norm

from schedbench.runner.torch.model.moe import experts_forward

if TYPE_CHECKING:
    import torch

    from schedbench.runner.models import ModelSpec
    from schedbench.runner.torch.attn.interface import Attention, AttnInput
    from schedbench.runner.torch.model.weights import LayerWeights, Weights


class Ops(Protocol):
    """Steps between the products: see TorchOps for what each one is given."""

    name: str

    def qkv_to_cache(
        self,
        qkv: torch.Tensor,
        layer: LayerWeights,
        rope: torch.Tensor,
        slots: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        """Norm, rotate, store; returns the queries."""
        ...

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`[.., 2 I]` -> `[.., I]`."""
        ...


@dataclass(slots=True)
class Tokens:
    """A pass's tokens on the device, int32: ids, positions and slots `[T]`, sampled rows `[S]`."""

    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    sample: torch.Tensor | None  # indices into the tokens; None: each of them, in order


class Forwards(Protocol):
    """A model with a paged cache, `[layers, 2, blocks, block_size, Hkv, D]`."""

    spec: ModelSpec
    cache: torch.Tensor
    attention: Attention

    def forward(self, tokens: Tokens, batch: AttnInput) -> torch.Tensor:
        """Logits of the sampled rows, `[S, vocab]`; the cache gets the pass's keys and values."""
        ...

    def details(self) -> dict[str, object]:
        """What a manifest says of it."""
        ...


@dataclass(slots=True)
class Decoder:
    """Weights, cache and the steps. `cache` is `[layers, 2, blocks, block_size, Hkv, D]`."""

    spec: ModelSpec
    weights: Weights
    cache: torch.Tensor
    rope: torch.Tensor  # [positions, D]
    ops: Ops
    attention: Attention
    router_bias: torch.Tensor | None = None  # [E]

    def forward(self, tokens: Tokens, batch: AttnInput) -> torch.Tensor:
        """Logits of the sampled rows, `[S, vocab]`; the cache gets the pass's keys and values."""
        spec, eps = self.spec, self.spec.rms_norm_eps
        width = (spec.hidden_size,)
        hidden = embedding(tokens.ids, self.weights.embed)
        rope = self.rope.index_select(0, tokens.positions)
        for index, layer in enumerate(self.weights.layers):
            keys, values = self.cache[index, 0], self.cache[index, 1]
            normed = rms_norm(hidden, width, layer.attn_norm, eps)
            qkv = linear(normed, layer.qkv, layer.qkv_bias)
            q = self.ops.qkv_to_cache(qkv, layer, rope, tokens.slots, keys, values)
            attended = self.attention(q, keys, values, batch)
            hidden.addmm_(attended.flatten(1), layer.o.t())
            normed = rms_norm(hidden, width, layer.mlp_norm, eps)
            self._feed_forward(hidden, normed, layer)
        if tokens.sample is not None:
            hidden = hidden.index_select(0, tokens.sample)
        return linear(rms_norm(hidden, width, self.weights.norm, eps), self.weights.head)

    def details(self) -> dict[str, object]:
        """What a manifest says of it."""
        return {"ops": self.ops.name, "weight_bytes": self.weights.num_bytes}

    def _feed_forward(
        self, hidden: torch.Tensor, normed: torch.Tensor, layer: LayerWeights
    ) -> None:
        """Add the feed-forward block's output to `hidden`, in place."""
        if self.spec.moe is not None:
            hidden.add_(experts_forward(normed, layer, self.spec.moe, self.ops, self.router_bias))
            return
        inner = self.ops.silu_mul(linear(normed, layer.gate_up))
        hidden.addmm_(inner, layer.down.t())
