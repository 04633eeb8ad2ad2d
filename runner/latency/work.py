"""The work in a pass, in seconds at the GPU's ceilings: what a model of time is built from.

Formulas are counts of the decoder's own operations: two flops a weight and token, four flops a
layer, head dimension and (query, key) pair, two vectors read a layer, KV head and key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from schedbench.runner.capture import bucket_of, decode_splits
from schedbench.runner.models import DTYPE_BYTES, ModelSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.runner.latency.hardware import Gpu
    from schedbench.runner.shapes import PassShape

ACTIVATION_EFFICIENCY: Final = 0.8  # fixed: its column is collinear with that of the matrices
ALL_REDUCE_S: Final = 10e-6  # start of one, an estimate


class PassWork(NamedTuple):
    """Seconds each kind of work would take alone at the ceiling of what binds it."""

    eager: int  # 1 unless the pass runs as a captured graph
    num_seqs: int
    num_chunks: int
    weights_s: float  # weights read once
    linear_s: float  # matrix products
    attention_s: float  # attention of the chunks, by flops
    kv_s: float  # keys and values read
    fixed_s: float  # activations through memory, and all-reduces


@dataclass(frozen=True)
class WorkModel:
    """Counts the work of passes of one model on one GPU (of `tensor_parallel_size` equal ones)."""

    model: ModelSpec
    gpu: Gpu
    dtype: str = "bfloat16"
    tensor_parallel_size: int = 1

    def work(self, shape: PassShape, sizes: Sequence[int] = ()) -> PassWork:
        """The work in a pass; a decode batch is padded to one of `sizes` and runs as a graph."""
        bucket = bucket_of(shape.num_tokens, sizes) if shape.is_uniform_decode else None
        tokens = bucket or shape.num_tokens
        return PassWork(
            eager=int(bucket is None),
            num_seqs=shape.num_seqs,
            num_chunks=shape.num_chunks,
            weights_s=self._weights_s(tokens, shape.num_sampled),
            linear_s=self._linear_s(tokens, bucket or shape.num_sampled),
            attention_s=self._pair_s * shape.attn_pairs,
            kv_s=shape.keys_read * self._seconds_a_key(tokens, shape.num_chunks),
            fixed_s=self._token_s * tokens + (self._reduce_s if tokens else 0.0),
        )

    def key_s(self, shape: PassShape, sizes: Sequence[int] = ()) -> float:
        """Seconds to read one key and value in such a pass."""
        bucket = bucket_of(shape.num_tokens, sizes) if shape.is_uniform_decode else None
        return self._seconds_a_key(bucket or shape.num_tokens, shape.num_chunks)

    def _seconds_a_key(self, tokens: int, num_chunks: int) -> float:
        return self._key_s * self._occupancy(tokens, num_chunks)

    def _weights_s(self, tokens: int, sampled: int) -> float:
        """Layers once, of a mixture's experts those that are reached; the head if it is used."""
        if not tokens:
            return 0.0
        model = self.model
        params = float(model.num_layers * model.layer_params)
        if model.moe:
            idle = model.moe.num_experts - model.moe.distinct_experts(tokens)
            params -= model.num_layers * idle * model.expert_params
        if sampled:
            params += model.embedding_params
        return params * self._share_bytes / self.gpu.bandwidth

    def _linear_s(self, tokens: int, sampled: int) -> float:
        layers = self.model.num_layers * self.model.active_layer_params * tokens
        head = self.model.embedding_params * sampled
        return 2.0 * (layers + head) / self.tensor_parallel_size / self.gpu.flops

    def _occupancy(self, tokens: int, num_chunks: int) -> float:
        """How much longer keys take to read when there are fewer programs than SMs."""
        if num_chunks or not tokens:
            return 1.0
        heads, sms = self._kv_heads, self.gpu.num_sms
        return max(1.0, sms / (tokens * heads * decode_splits(tokens, heads, sms)))

    @cached_property
    def _kv_heads(self) -> int:
        return self.model.kv_heads_per_rank(self.tensor_parallel_size)

    @cached_property
    def _share_bytes(self) -> float:
        return DTYPE_BYTES[self.dtype] / self.tensor_parallel_size

    @cached_property
    def _pair_s(self) -> float:
        spec = self.model
        flops = 4.0 * spec.num_layers * spec.num_heads * spec.head_dim
        return flops / self.tensor_parallel_size / self.gpu.flops

    @cached_property
    def _key_s(self) -> float:
        per_key = self.model.kv_bytes_per_token(self.dtype, self.tensor_parallel_size)
        return per_key / self.gpu.bandwidth

    @cached_property
    def _token_s(self) -> float:
        """Activations of one token through memory, at a fixed share of the bandwidth.

        A layer passes over its hidden state 14 times (norms, residuals, ends of the four
        products), over queries 5 and keys and values 6 times, over the feed-forward width 6.
        """
        spec, rank = self.model, self.tensor_parallel_size
        inner = spec.moe.top_k * spec.moe.intermediate_size if spec.moe else spec.intermediate_size
        heads = spec.num_heads * spec.head_dim / rank
        kv_heads = self._kv_heads * spec.head_dim
        elements = 14 * spec.hidden_size + 6 * heads + 8 * kv_heads + 6 * inner / rank
        moved = spec.num_layers * elements * DTYPE_BYTES[self.dtype]
        return moved / (ACTIVATION_EFFICIENCY * self.gpu.bandwidth) + self._reduced_token_s

    @cached_property
    def _reduced_token_s(self) -> float:
        """Two ring all-reduces a layer: each GPU sends 2 (n - 1) / n of the hidden state."""
        rank, spec = self.tensor_parallel_size, self.model
        if rank == 1:
            return 0.0
        sent = 2 * (rank - 1) / rank * spec.hidden_size * DTYPE_BYTES[self.dtype]
        return 2 * spec.num_layers * sent / (self.gpu.link_gb_s * 1e9)

    @cached_property
    def _reduce_s(self) -> float:
        calls = 2 * self.model.num_layers if self.tensor_parallel_size > 1 else 0
        return calls * ALL_REDUCE_S
