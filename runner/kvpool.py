"""How many KV blocks vLLM would make on a GPU, term by term.

    |<------------------------------ total memory ------------------------------>|
    |<------- requested = ceil(total * gpu_memory_utilization) ------>|
    | weights | activations at their peak | not torch's | CUDA graphs |   KV     |

vLLM 0.26 measures the middle terms in a profiling pass (`v1/worker/gpu_worker.py`,
`determine_available_memory`) and cuts what is left into blocks (`v1/core/kv_cache_utils.py`,
`get_num_blocks`). Here the measured terms are a formula calibrated on three public logs of
Llama-3.1-8B; `bench/kv_pool_logs.py` prints how it does on those and on others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schedbench.bounds import SOME
from schedbench.errors import UsageError
from schedbench.runner.batch_defaults import batch_defaults
from schedbench.runner.latency.hardware import GIB, Gpu, find_gpu
from schedbench.runner.models import DTYPE_BYTES, ModelSpec

if TYPE_CHECKING:
    from schedbench.runner.batch_defaults import UsageContext

SAMPLER_BYTES: Final = 18  # per logit, calibrated: copies in bf16 and fp32, sorted values and ids
NON_TORCH_BYTES: Final = int(0.1 * GIB)  # calibrated: driver, cuBLAS and NCCL workspaces
REMEDY: Final = (
    "Raise --gpu-memory-utilization or --tensor-parallel-size, or lower --max-num-batched-tokens"
)
DEFAULT_UTILIZATION: Final = 0.92  # vLLM 0.26.0 config/cache.py


@dataclass(frozen=True, slots=True)
class Term:
    """One step of the sum: a number, its unit and where it comes from."""

    name: str
    value: int
    unit: str  # bytes, blocks or tokens
    formula: str

    def __str__(self) -> str:
        return f"{self.name} = {self.shown} ({self.formula})"

    @property
    def shown(self) -> str:
        """The value as people read it."""
        if self.unit != "bytes":
            return f"{self.value:,}"
        return f"{self.value / GIB:.2f} GiB" if self.value >= GIB // 10 else f"{self.value:,} B"


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """`num_gpu_blocks` counts the null block, as vLLM's flag does."""

    num_gpu_blocks: int
    terms: tuple[Term, ...]

    def __getitem__(self, name: str) -> int:
        """The value of a term by its name."""
        return next(term.value for term in self.terms if term.name == name)


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """What the size of the pool depends on. None stands for vLLM's default."""

    model: ModelSpec
    gpu: Gpu
    gpu_memory_utilization: float = DEFAULT_UTILIZATION
    dtype: str = "bfloat16"
    kv_cache_dtype: str | None = None
    block_size: int = 16
    tensor_parallel_size: int = 1
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    usage: UsageContext = "server"
    total_memory_bytes: int | None = None  # where the card at hand is known better than the table
    cuda_graph_bytes: int = 0
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.gpu_memory_utilization <= 1.0:
            raise UsageError(
                f"--gpu-memory-utilization is {self.gpu_memory_utilization}: it is a share of "
                "the GPU's memory, above 0 and at most 1"
            )
        if self.tensor_parallel_size < 1 or self.model.num_heads % self.tensor_parallel_size:
            raise UsageError(
                f"--tensor-parallel-size {self.tensor_parallel_size} does not divide the "
                f"{self.model.num_heads} attention heads of {self.model.name}"
            )


def plan(model: ModelSpec, gpu: Gpu | str, **options: object) -> PoolPlan:
    """Size the pool; `options` are the fields of PoolRequest.

    Raises:
        UsageError: nothing is left for the KV cache; the message has every term.
    """
    known = find_gpu(gpu) if isinstance(gpu, str) else gpu
    return plan_pool(PoolRequest(model, known, **options))  # type: ignore[arg-type]


def plan_pool(request: PoolRequest, *, remedy: str = REMEDY) -> PoolPlan:
    """Size the pool; an override of the count or of the bytes outranks the sum, as in vLLM.

    `remedy`: what to do where nothing is left, by the options that the user has.
    """
    SOME.check(request.block_size, "--block-size")
    block = _block_term(request)
    if request.num_gpu_blocks is not None:
        count = Term(
            "num_gpu_blocks", request.num_gpu_blocks, "blocks", "--num-gpu-blocks-override"
        )
        return _finish(request, [block, count])
    if request.kv_cache_memory_bytes is not None:
        given = Term("kv_cache", request.kv_cache_memory_bytes, "bytes", "--kv-cache-memory-bytes")
        return _finish(request, [given, block, _count(given.value, block.value)])
    terms = _memory_terms(request)
    available = terms[-1].value
    if available < block.value * 2:
        raise UsageError(
            f"{request.model.name} leaves no room for a KV cache on {request.gpu.name}: "
            + "; ".join(str(term) for term in terms)
            + f". {remedy}"
        )
    return _finish(request, [*terms, block, _count(available, block.value)])


def _memory_terms(request: PoolRequest) -> list[Term]:
    total = request.total_memory_bytes or request.gpu.total_memory_bytes
    utilization = request.gpu_memory_utilization
    rank = request.tensor_parallel_size
    terms = [
        Term("total_memory", total, "bytes", f"what a process sees of {request.gpu.name}"),
        Term(
            "requested",
            math.ceil(total * utilization),
            "bytes",
            f"ceil(total_memory * {utilization})",
        ),
        Term(
            "weights",
            request.model.weight_bytes(request.dtype, rank),
            "bytes",
            f"{request.model.num_params:,} parameters / {rank} * {DTYPE_BYTES[request.dtype]} "
            f"bytes, rotary table {request.model.rope_table_bytes():,} bytes",
        ),
        _peak_term(request),
        Term("non_torch", NON_TORCH_BYTES, "bytes", "0.1 GiB, calibrated"),
        Term(
            "cuda_graphs",
            request.cuda_graph_bytes,
            "bytes",
            "as given"
            if request.cuda_graph_bytes
            else "not counted: vLLM 0.26 measures 0.1 to 0.6 GiB, and no formula is known",
        ),
    ]
    used = sum(term.value for term in terms[2:])
    formula = "requested - weights - activation_peak - non_torch - cuda_graphs"
    return [*terms, Term("kv_cache", terms[1].value - used, "bytes", formula)]


def _peak_term(request: PoolRequest) -> Term:
    """Activations of a full pass, or the sampler's copies of the logits, whichever is more."""
    spec, rank = request.model, request.tensor_parallel_size
    tokens, seqs = batch_limits(request)
    inner = spec.moe.top_k * spec.moe.intermediate_size if spec.moe else spec.intermediate_size
    width = 2 * spec.hidden_size + 3 * inner // rank
    return Term(
        "activation_peak",
        max(tokens * width * DTYPE_BYTES[request.dtype], seqs * spec.vocab_size * SAMPLER_BYTES),
        "bytes",
        f"max({tokens} tokens * {width} * {DTYPE_BYTES[request.dtype]} bytes, "
        f"{seqs} requests * {spec.vocab_size} logits * {SAMPLER_BYTES} bytes), calibrated",
    )


def batch_limits(request: PoolRequest) -> tuple[int, int]:
    """Most tokens and most requests of a pass, vLLM's defaults where none are given."""
    total = request.total_memory_bytes or request.gpu.total_memory_bytes
    defaults = batch_defaults(total, request.gpu.name, request.usage)
    return (
        request.max_num_batched_tokens or defaults.max_num_batched_tokens,
        request.max_num_seqs or defaults.max_num_seqs,
    )


def _block_term(request: PoolRequest) -> Term:
    spec, rank, size = request.model, request.tensor_parallel_size, request.block_size
    per_token = spec.kv_bytes_per_token(request.kv_cache_dtype or request.dtype, rank)
    heads = spec.kv_heads_per_rank(rank)
    return Term(
        "block",
        per_token * size,
        "bytes",
        f"2 * {size} tokens * {heads} KV heads * {spec.head_dim} * "
        f"{per_token // (2 * heads * spec.head_dim * spec.num_layers)} bytes * "
        f"{spec.num_layers} layers",
    )


def _count(available: int, block_bytes: int) -> Term:
    return Term("num_gpu_blocks", available // block_bytes, "blocks", "kv_cache // block")


def _finish(request: PoolRequest, terms: list[Term]) -> PoolPlan:
    blocks = terms[-1].value
    usable = Term("usable_blocks", blocks - 1, "blocks", "num_gpu_blocks - 1, the null block")
    tokens = Term(
        "kv_tokens",
        blocks * request.block_size,
        "tokens",
        f"num_gpu_blocks * {request.block_size}, as vLLM logs it",
    )
    return PoolPlan(blocks, (*terms, usable, tokens))
