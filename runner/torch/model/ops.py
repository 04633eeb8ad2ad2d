"""The steps between the matrix products, in plain torch; `attn/fused.py` has them as kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import rms_norm, silu

if TYPE_CHECKING:
    from schedbench.runner.models import ModelSpec, RopeScaling
    from schedbench.runner.torch.model.weights import LayerWeights


class TorchOps:
    """Portable; a dozen launches a layer more than the fused kernels."""

    name = "torch"

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec

    def qkv_to_cache(
        self,
        qkv: torch.Tensor,
        layer: LayerWeights,
        rope: torch.Tensor,
        slots: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        """Norm and rotate queries and keys, put keys and values into their slots.

        `qkv [T, W]`, `rope [T, D]` (cosines, then sines), `slots [T]`; the cache is changed.
        Returns the queries, `[T, H, D]`.
        """
        spec = self._spec
        tokens = qkv.shape[0]
        heads = qkv.view(tokens, -1, spec.head_dim)
        rotated = heads[:, : spec.num_heads + spec.num_kv_heads]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = rotated.split([spec.num_heads, spec.num_kv_heads], dim=1)
            norms = ((q, layer.q_norm), (k, layer.k_norm))
            rotated = torch.cat(
                [rms_norm(x, (spec.head_dim,), weight, spec.rms_norm_eps) for x, weight in norms],
                dim=1,
            )
        rotated = rotate(rotated, rope)
        at = slots.long()
        keys.flatten(0, 1).index_copy_(0, at, rotated[:, spec.num_heads :])
        values.flatten(0, 1).index_copy_(0, at, heads[:, spec.num_heads + spec.num_kv_heads :])
        return rotated[:, : spec.num_heads].contiguous()

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """`[.., 2 I]` -> `[.., I]`: silu of the first half times the second."""
        gate, up = gate_up.chunk(2, dim=-1)
        return silu(gate) * up


def rotate(heads: torch.Tensor, rope: torch.Tensor) -> torch.Tensor:
    """Rotate pairs (i, i + D/2) of `[T, heads, D]` by the angles of each token, `rope [T, D]`."""
    cos, sin = rope[:, None, :].chunk(2, dim=-1)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rope_table(
    spec: ModelSpec, num_positions: int, device: torch.device, dtype: torch.dtype
) -> torch.Tensor:
    """Cosines and sines, `[num_positions, D]`: angle = position * theta^(-2i/D), i < D/2.

    The frequencies are worked out in float32, as transformers does.
    """
    half = torch.arange(0, spec.head_dim, 2, device=device, dtype=torch.float32)
    frequencies = 1.0 / spec.rope_theta ** (half / spec.head_dim)
    if spec.rope_scaling is not None:
        frequencies = _scaled(frequencies, spec.rope_scaling)
    positions = torch.arange(num_positions, device=device, dtype=torch.float32)
    angles = positions[:, None] * frequencies[None, :]
    return torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype)


def _scaled(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Llama 3.1: long waves are slowed down by the factor, short ones kept, a blend between.

    A wave is long beyond original_length / low_freq_factor, short below / high_freq_factor.
    """
    turns = scaling.original_max_position_embeddings * frequencies / (2 * torch.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return (1.0 - smooth) * frequencies / scaling.factor + smooth * frequencies
