"""Mixture of experts: tokens sorted by expert, two grouped products, back in order.

Nothing waits for the host, so that it can be captured in a graph. With random weights routing is
nearly uniform; `router_bias` makes some experts favourites, because imbalance changes decode time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch.nn.functional import grouped_mm

if TYPE_CHECKING:
    from schedbench.runner.models import MoeSpec
    from schedbench.runner.torch.model.weights import LayerWeights


class HasSiluMul(Protocol):
    """The one elementwise step in between."""

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`[.., 2 I]` -> `[.., I]`."""
        ...


def route(
    logits: torch.Tensor, moe: MoeSpec, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and expert ids of each token, `[T, k]`; the softmax is taken in float32."""
    logits = logits.float()
    if bias is not None:
        logits = logits + bias
    weights, experts = logits.softmax(dim=-1).topk(moe.top_k, dim=-1)
    if moe.norm_topk_prob:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, experts


def experts_forward(
    hidden: torch.Tensor,
    layer: LayerWeights,
    moe: MoeSpec,
    ops: HasSiluMul,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Feed `hidden [T, h]` through the experts that the router picks; returns `[T, h]`."""
    assert layer.router is not None
    weights, experts = route(hidden @ layer.router.t(), moe, bias)
    flat = experts.flatten()
    order = flat.argsort(stable=True)
    ends = torch.zeros(moe.num_experts, device=flat.device, dtype=torch.int32)
    ends.index_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
    ends = ends.cumsum(0, dtype=torch.int32)
    token = order // moe.top_k
    inner = grouped_mm(hidden[token], layer.gate_up.transpose(1, 2), offs=ends)
    outer = grouped_mm(ops.silu_mul(inner), layer.down.transpose(1, 2), offs=ends)
    share = weights.flatten()[order].to(outer.dtype)
    out = torch.zeros_like(hidden)
    return out.index_add_(0, token, outer * share[:, None])


def zipf_bias(moe: MoeSpec, exponent: float, device: torch.device, seed: int = 0) -> torch.Tensor:
    """Router bias, `[E]`, under which expert ranks are drawn by Zipf's law; ranks are shuffled."""
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.randperm(moe.num_experts, generator=generator) + 1
    return (-exponent * ranks.float().log()).to(device)
