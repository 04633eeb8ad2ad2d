"""From options and flags to an engine that is ready to run, and what a manifest says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch

from schedbench.errors import UnsupportedError, UsageError
from schedbench.runner.capture import capture_sizes
from schedbench.runner.model_config import load_model
from schedbench.runner.torch.attn.select import choose, has_triton, self_check
from schedbench.runner.torch.device import check_memory, choose_device, choose_dtype
from schedbench.runner.torch.engine import Engine, EngineLimits
from schedbench.runner.torch.model.decoder import Decoder, Ops
from schedbench.runner.torch.model.moe import zipf_bias
from schedbench.runner.torch.model.ops import TorchOps, rope_table
from schedbench.runner.torch.model.weights import Weights, random_weights

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.runner.models import ModelSpec
    from schedbench.runner.torch.attn.interface import Attention
    from schedbench.runner.torch.attn.select import AttentionName
    from schedbench.runner.torch.model.decoder import Forwards
    from schedbench.sched.config import SchedulerConfig


SMALL_MODEL: Final = 10_000_000  # parameters
Frontend = Literal["own", "hf"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What is run and on what. `model` is a built-in name or a path with a config.json.

    `weights` is a folder of safetensors; None makes random ones. `eager` captures no graphs.
    `pad_decodes` pads decode batches as graphs do, where there are none. `zipf` is the exponent
    of uneven expert routing; 0 leaves the router as it is. `frontend` is whose model runs: our
    decoder, or transformers' own ("hf"), which knows more architectures and captures no graphs.
    """

    model: str | Path = "tiny"
    device: str = "auto"
    dtype: str | None = None
    attention: AttentionName = "auto"
    weights: Path | None = None
    eager: bool = False
    pad_decodes: bool = False
    seed: int = 0
    zipf: float = 0.0
    frontend: Frontend = "own"

    def __post_init__(self) -> None:
        if self.frontend not in get_args(Frontend):
            raise UsageError(f"--frontend {self.frontend}: it is {' or '.join(get_args(Frontend))}")
        if self.frontend == "hf" and self.zipf:
            raise UsageError("--zipf is of our own router, and --frontend hf has transformers'")


def build_engine(options: EngineOptions, config: SchedulerConfig) -> tuple[Engine, dict[str, Any]]:
    """Make the engine and the manifest's details.

    Raises:
        UsageError: no such device or model, not enough memory, or lengths beyond the model's.
        UnsupportedError: a field of the model or a head width that is not modelled.
        InvariantError: attention's self-check failed.
    """
    spec = _load_spec(options)
    _check_lengths(spec, config)
    device = choose_device(options.device)
    dtype = choose_dtype(options.dtype, device)
    if device.type == "cpu" and spec.num_params < SMALL_MODEL:
        torch.set_num_threads(1)  # threads would wait for each other longer than they work
    attention = choose(options.attention, spec, device, dtype)
    error = self_check(attention, spec, device, dtype)
    check_memory(spec, device, dtype, config.num_gpu_blocks, config.block_size)
    cache = _cache(spec, config, device, dtype)
    if options.frontend == "hf":
        decoder: Forwards = _hf_decoder(spec, options, cache, attention)
    else:
        decoder = Decoder(
            spec,
            make_weights(spec, options, device, dtype),
            cache,
            rope_table(spec, config.max_model_len, device, dtype),
            _ops(spec, attention.name),
            attention,
            _router_bias(spec, options, device),
        )
    sizes: list[int] = []
    if captures(options, device, attention.name) or (options.pad_decodes and device.type != "cuda"):
        sizes = capture_sizes(config.max_num_seqs, config.max_num_batched_tokens)
    engine = Engine(decoder, _limits(config), sizes, num_sms(device))
    details = _details(options, engine, dtype) | {"self_check_error": error}
    return engine, details


def _load_spec(options: EngineOptions) -> ModelSpec:
    if options.frontend == "own":
        return load_model(options.model)
    from schedbench.runner.torch.model.hf import hf_spec  # noqa: PLC0415 - needs transformers

    return hf_spec(options.model)


def _hf_decoder(
    spec: ModelSpec, options: EngineOptions, cache: torch.Tensor, attention: Attention
) -> Forwards:
    from schedbench.runner.torch.model.hf import HfDecoder, make_hf_model  # noqa: PLC0415

    model = make_hf_model(options.model, options.weights, cache.device, cache.dtype, options.seed)
    return HfDecoder(spec, model, cache, attention)


def captures(options: EngineOptions, device: torch.device, attention: str) -> bool:
    """Whether decode batches run as graphs: all other attention looks at lengths on the host."""
    tuned = options.frontend == "own" and not options.eager
    return device.type == "cuda" and attention == "triton" and tuned


def make_weights(
    spec: ModelSpec, options: EngineOptions, device: torch.device, dtype: torch.dtype
) -> Weights:
    """Random in place, or read from the folder given."""
    if options.weights is None:
        return random_weights(spec, device, dtype, options.seed)
    from schedbench.runner.torch.model.checkpoint import load_weights  # noqa: PLC0415

    return load_weights(spec, options.weights, device, dtype)


def num_sms(device: torch.device) -> int:
    """Multiprocessors, by which keys are split in the decode kernel; 1 on a CPU."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _ops(spec: ModelSpec, attention: str) -> Ops:
    """The fused kernels go with the attention kernels; all else is plain torch."""
    if attention != "triton":
        return TorchOps(spec)
    from schedbench.runner.torch.attn.triton_paged import TritonOps  # noqa: PLC0415

    return TritonOps(spec)


def _cache(
    spec: ModelSpec, config: SchedulerConfig, device: torch.device, dtype: torch.dtype
) -> torch.Tensor:
    """Keys and values, `[layers, 2, blocks, block_size, Hkv, D]`, at zero."""
    shape = (
        spec.num_layers, 2, config.num_gpu_blocks, config.block_size, spec.num_kv_heads,
        spec.head_dim,
    )  # fmt: skip
    return torch.zeros(shape, dtype=dtype, device=device)


def _router_bias(
    spec: ModelSpec, options: EngineOptions, device: torch.device
) -> torch.Tensor | None:
    if not options.zipf:
        return None
    if spec.moe is None:
        raise UsageError(f"--zipf: {spec.name} has no experts to route to")
    return zipf_bias(spec.moe, options.zipf, device, options.seed)


def _limits(config: SchedulerConfig) -> EngineLimits:
    return EngineLimits(
        max_tokens=max(config.token_budget, config.max_num_batched_tokens),
        max_seqs=config.max_num_seqs,
        max_model_len=config.max_model_len,
        block_size=config.block_size,
        num_blocks=config.num_gpu_blocks,
    )


def _check_lengths(spec: ModelSpec, config: SchedulerConfig) -> None:
    if config.max_model_len > spec.max_position_embeddings:
        raise UsageError(
            f"--max-model-len {config.max_model_len} is beyond the {spec.max_position_embeddings} "
            f"positions of {spec.name}; give --max-model-len {spec.max_position_embeddings}"
        )
    for flag, value in (
        ("--max-loras", config.max_loras),
        ("--spec-tokens", config.num_speculative_tokens),
    ):
        if value:
            raise UnsupportedError(
                f"{flag}: the torch runner computes no adapters and no drafts; use a latency model"
            )


def _details(options: EngineOptions, engine: Engine, dtype: torch.dtype) -> dict[str, Any]:
    decoder, device = engine.decoder, engine.device
    versions = {"torch": torch.__version__}
    if has_triton():
        import triton  # noqa: PLC0415

        versions["triton"] = triton.__version__
    gpu = device.type == "cuda"
    found: dict[str, Any] = {
        "model": decoder.spec.name,
        "parameters": decoder.spec.num_params,
        "weights": "random" if options.weights is None else str(options.weights),
        "cache_bytes": decoder.cache.numel() * decoder.cache.element_size(),
        "dtype": str(dtype).removeprefix("torch."),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if gpu else "the CPU",
        "attention": decoder.attention.name,
        "graph_sizes": len(engine.sizes) if gpu else 0,
        "versions": versions,
        **decoder.details(),
    }
    if decoder.spec.moe is not None:
        uniform = (
            "nearly uniform, as random weights route" if options.weights is None else "its own"
        )
        found["routing"] = f"Zipf, exponent {options.zipf}" if options.zipf else uniform
    return found
