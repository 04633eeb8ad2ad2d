"""Decoder-only models as far as time and memory depend on them: widths, counts, bytes.

The built-in specs repeat the public `config.json` of each model; `tiny` is made here, for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPE_BYTES: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}
KV_DTYPE_BYTES: Final[Mapping[str, int]] = {**DTYPE_BYTES, "fp8": 1}


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3's stretch of the rotary frequencies: long waves are slowed down by `factor`."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class MoeSpec:
    """Mixture of experts in every layer: `top_k` of `num_experts` see a token."""

    num_experts: int
    top_k: int
    intermediate_size: int
    norm_topk_prob: bool = True

    def distinct_experts(self, num_tokens: float) -> float:
        """Expected number of experts that a pass of `num_tokens` reads, routing being uniform.

        E * (1 - (1 - k/E)^T): each token misses a given expert with probability 1 - k/E.
        """
        miss = 1.0 - self.top_k / self.num_experts
        return self.num_experts * (1.0 - float(miss**num_tokens))


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One decoder-only transformer. Sizes are elements, counts are parameters, per whole model."""

    name: str
    family: str  # the config's model_type: llama, mistral, qwen2, qwen3, qwen3_moe, mixtral
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    rope_theta: float
    rms_norm_eps: float
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: RopeScaling | None = None
    moe: MoeSpec | None = None

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def qkv_width(self) -> int:
        """Columns of the fused query, key and value projection."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @property
    def attention_params(self) -> int:
        """Weights of one layer's four attention projections, biases and head norms included."""
        matrices = self.hidden_size * (self.qkv_width + self.num_heads * self.head_dim)
        bias = self.qkv_width if self.qkv_bias else 0
        norms = 2 * self.head_dim if self.qk_norm else 0
        return matrices + bias + norms

    @property
    def expert_params(self) -> int:
        """Weights of one expert, or of the one feed-forward block of a dense layer."""
        width = self.moe.intermediate_size if self.moe else self.intermediate_size
        return 3 * self.hidden_size * width

    @property
    def layer_params(self) -> int:
        """All weights of one layer: attention, feed-forward, router, two norms."""
        experts = self.moe.num_experts if self.moe else 1
        router = self.hidden_size * experts if self.moe else 0
        return self.attention_params + experts * self.expert_params + router + 2 * self.hidden_size

    @property
    def embedding_params(self) -> int:
        """The token table; the output head has as many, and none of its own where they are tied."""
        return self.vocab_size * self.hidden_size

    @property
    def num_params(self) -> int:
        """Every weight once."""
        tables = 1 if self.tie_word_embeddings else 2
        return (
            self.num_layers * self.layer_params + tables * self.embedding_params + self.hidden_size
        )

    @property
    def active_layer_params(self) -> int:
        """Weights of one layer that a single token is multiplied with."""
        if self.moe is None:
            return self.layer_params
        idle = (self.moe.num_experts - self.moe.top_k) * self.expert_params
        return self.layer_params - idle

    def kv_heads_per_rank(self, tensor_parallel_size: int = 1) -> int:
        """KV heads on one GPU; with more GPUs than heads each keeps a copy of one."""
        return max(1, self.num_kv_heads // tensor_parallel_size)

    def kv_bytes_per_token(self, kv_dtype: str = "bfloat16", tensor_parallel_size: int = 1) -> int:
        """Bytes of keys and values of one token over all layers, on one GPU."""
        heads = self.kv_heads_per_rank(tensor_parallel_size)
        return 2 * self.num_layers * heads * self.head_dim * KV_DTYPE_BYTES[kv_dtype]

    def rope_table_bytes(self) -> int:
        """The cosine and sine table that vLLM keeps beside the weights, two bytes an element."""
        return self.max_position_embeddings * self.head_dim * 2

    def weight_bytes(self, dtype: str = "bfloat16", tensor_parallel_size: int = 1) -> int:
        """Bytes of weights on one GPU: its share of the parameters, and the rotary table.

        For Llama-3.1-8B this is 14.9888 GiB, the number that vLLM logs (vllm issue 10517).
        """
        share = self.num_params * DTYPE_BYTES[dtype] // tensor_parallel_size
        return share + self.rope_table_bytes()


@dataclass(frozen=True, slots=True)
class CountedSpec(ModelSpec):
    """A model whose layers are not of the form above: its parameters were counted."""

    counted_params: int = 0

    @property
    def num_params(self) -> int:
        """Every weight once."""
        return self.counted_params


_LLAMA_31 = RopeScaling(8.0, 1.0, 4.0, 8192)

BUILT_IN: Final[Mapping[str, ModelSpec]] = {
    spec.name: spec
    for spec in (
        ModelSpec(
            "llama-3.1-8b",
            "llama",
            4096,
            32,
            32,
            8,
            128,
            14336,
            128256,
            131072,
            500000.0,
            1e-5,
            rope_scaling=_LLAMA_31,
        ),
        ModelSpec(
            "llama-3.1-70b",
            "llama",
            8192,
            80,
            64,
            8,
            128,
            28672,
            128256,
            131072,
            500000.0,
            1e-5,
            rope_scaling=_LLAMA_31,
        ),
        ModelSpec(
            "qwen3-0.6b",
            "qwen3",
            1024,
            28,
            16,
            8,
            128,
            3072,
            151936,
            40960,
            1e6,
            1e-6,
            tie_word_embeddings=True,
            qk_norm=True,
        ),
        ModelSpec(
            "qwen3-8b",
            "qwen3",
            4096,
            36,
            32,
            8,
            128,
            12288,
            151936,
            40960,
            1e6,
            1e-6,
            qk_norm=True,
        ),
        ModelSpec(
            "qwen3-30b-a3b",
            "qwen3_moe",
            2048,
            48,
            32,
            4,
            128,
            6144,
            151936,
            40960,
            1e6,
            1e-6,
            qk_norm=True,
            moe=MoeSpec(num_experts=128, top_k=8, intermediate_size=768),
        ),
        ModelSpec("tiny", "llama", 64, 2, 4, 2, 16, 128, 512, 131072, 10000.0, 1e-5),
    )
}


def built_in(name: str) -> ModelSpec:
    """Look up a built-in model.

    Raises:
        UsageError: there is none of that name.
    """
    spec = BUILT_IN.get(name.lower())
    if spec is None:
        raise UsageError(
            f"--model {name}: no built-in model and no folder with a config.json; built in are "
            f"{', '.join(BUILT_IN)}"
        )
    return spec
