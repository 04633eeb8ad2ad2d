"""What serves a trace: a model on GPUs, and what says how long its passes take.

    named                     a pass takes
    --cost                    logical time: so much for a pass, so much for each token
    --recorded RUN            what it took in a stored run
    --profile FILE            what was fitted on measured passes
    --runner torch            what a forward pass on this machine takes
    else, by --model, --gpu   what the profile kept for the two says, or else the roofline

Flags that a server derives from its model and its GPU are derived here in the same way, for the
command line and for Python alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from schedbench.bounds import GPUS, PART, ZIPF
from schedbench.errors import UsageError
from schedbench.results.extras import remedy
from schedbench.results.stored_run import StoredRun
from schedbench.runner.batch_defaults import BatchDefaults, UsageContext, batch_defaults
from schedbench.runner.clock import parse_cost
from schedbench.runner.gpus import seen_gpu
from schedbench.runner.kvpool import DEFAULT_UTILIZATION, PoolPlan, PoolRequest, plan_pool
from schedbench.runner.latency.hardware import find_gpu, recognise_gpu
from schedbench.runner.latency.profile import load_profile
from schedbench.runner.latency.select import DEFAULT_GPU, DEFAULT_MODEL, make_runner
from schedbench.runner.model_config import load_model
from schedbench.runner.models import DTYPE_BYTES
from schedbench.sched.behaviours import resolve
from schedbench.sched.config import SchedulerConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedbench.runner.api import Runner
    from schedbench.runner.latency.hardware import Gpu
    from schedbench.runner.latency.profile import Profile
    from schedbench.runner.models import ModelSpec

RunnerKind = Literal["clock", "model", "torch"]
DEFAULT_COST: Final = "linear:8ms,0.03ms"
DERIVED: Final = ("max_model_len", "max_num_batched_tokens", "max_num_seqs", "num_gpu_blocks")
"""Flags that a server derives, where they are not given, from its model and its GPU."""

_MEANT_FOR: Final[Mapping[RunnerKind, tuple[str, ...]]] = {
    "clock": ("cost",),
    "model": ("profile", "recorded", "enforce_eager"),
    "torch": ("frontend", "device", "attention", "weights", "zipf", "paranoid", "enforce_eager"),
}
"""Options that only these runners read."""


@dataclass(frozen=True)
class Deployment:
    """A model, its GPUs, and the source of time; None stands for what is not said.

    Raises:
        UsageError: options that exclude each other or cannot be; each message names them.
        UnsupportedError: a model with a field that is not modelled.
    """

    runner: RunnerKind | None = None
    cost: str | None = None
    model: str | None = None
    gpu: str | None = None
    tensor_parallel_size: int = 1
    dtype: str | None = None  # bfloat16; the torch runner takes float32 on a CPU
    gpu_memory_utilization: float | None = None
    profile: str | None = None
    recorded: str | None = None
    frontend: str | None = None  # hf: transformers' own model runs, instead of our decoder
    device: str | None = None
    attention: str | None = None
    weights: str | None = None  # a folder of safetensors; random ones without it
    zipf: float | None = None  # exponent of uneven routing to experts
    paranoid: bool = False
    enforce_eager: bool = False
    usage: UsageContext = "server"

    def __post_init__(self) -> None:
        if self.runner is not None and self.runner not in get_args(RunnerKind):
            raise UsageError(f"--runner {self.runner}: it is clock, model or torch")
        if self.dtype is not None and self.dtype not in DTYPE_BYTES:
            raise UsageError(f"--dtype {self.dtype}: it is one of {', '.join(DTYPE_BYTES)}")
        if self.usage not in get_args(UsageContext):
            raise UsageError(f"--usage-context {self.usage}: it is server or llm")
        if self.cost is not None:
            parse_cost(self.cost)
        GPUS.check(self.tensor_parallel_size, "--tensor-parallel-size")
        if self.gpu_memory_utilization is not None:
            PART.check(self.gpu_memory_utilization, "--gpu-memory-utilization")
        if self.zipf is not None:
            ZIPF.check(self.zipf, "--zipf")
        self._check_sources()
        self._check_parts()

    @property
    def kind(self) -> RunnerKind:
        """Logical time where a cost is typed; else a model of time, unless torch is asked for."""
        return self.runner or ("clock" if self.cost is not None else "model")

    def _check_sources(self) -> None:
        for owner, names in _MEANT_FOR.items():
            for name in names:
                if getattr(self, name) not in (None, False) and self.kind not in _readers(name):
                    raise UsageError(
                        f"{_option(name)} is of --runner {owner} and would have no effect "
                        f"{self._instead(owner)}"
                    )
        if self.profile is not None and self.recorded is not None:
            raise UsageError(
                "--recorded says how long each pass takes, so --profile would have no effect; "
                "leave one out"
            )

    def _instead(self, owner: RunnerKind) -> str:
        """With what an option of another runner was given, and the way out."""
        if self.runner is not None:
            return f"with --runner {self.kind}; leave one out"
        if self.cost is not None:
            return "with --cost; leave one out"
        return f"without it; give --runner {owner} too, or leave the option out"

    def _check_parts(self) -> None:
        one_gpu = "--profile" if self.profile else "--runner torch" if self.is_torch else ""
        if one_gpu and self.tensor_parallel_size != 1:
            raise UsageError(
                f"{one_gpu} times one GPU; leave out --tensor-parallel-size, or {one_gpu} to have "
                "it estimated"
            )
        if self.is_torch and self.gpu is not None:
            raise UsageError(
                "--runner torch runs on this machine, so --gpu would have no effect; leave it "
                "out, or give --device"
            )

    @property
    def is_torch(self) -> bool:
        return self.kind == "torch"

    @property
    def description(self) -> str:
        """Where times come from, in words; an estimate is called one."""
        if self.is_torch:
            whose = "transformers' " if self.frontend == "hf" else ""
            return f"forward passes of {whose}{self.model or DEFAULT_MODEL} on this machine"
        if self.recorded is not None:
            return f"recorded times of {self.recorded}"
        told = str(getattr(self.make_runner(), "description", ""))
        return f"logical time, {told}" if self.kind == "clock" else told

    def make_runner(self) -> Runner:
        """Make what says how long a pass takes."""
        if self.kind == "clock":
            return parse_cost(self.cost or DEFAULT_COST)
        if self.is_torch:
            return self._torch_runner()
        if self.recorded is not None:
            return make_runner(recorded=self.recorded)
        if self.profile is not None:
            self._check_profile_dtype()
            return make_runner(
                profile=self.profile, model=self.model, gpu=self.gpu, eager=self.enforce_eager
            )
        return make_runner(
            model=self.model,
            gpu=self.gpu,
            tensor_parallel_size=self.tensor_parallel_size,
            dtype=self.weights_dtype,
            eager=self.enforce_eager,
        )

    def _check_profile_dtype(self) -> None:
        if self.dtype not in (None, self.weights_dtype):
            raise UsageError(
                f"--profile {self.profile} was measured in {self.weights_dtype}, and --dtype is "
                f"{self.dtype}; leave --dtype out"
            )

    def _torch_runner(self) -> Runner:
        _require_torch()
        from schedbench.runner.torch.runner import make_torch_runner  # noqa: PLC0415 (optional)

        return make_torch_runner(
            self.model or DEFAULT_MODEL,
            device=self.device or "auto",
            dtype=self.dtype,
            attention=self.attention or "auto",
            weights=None if self.weights is None else Path(self.weights),
            zipf=0.0 if self.zipf is None else self.zipf,
            frontend=self.frontend or "own",
            eager=self.enforce_eager,
            paranoid=self.paranoid,
        )

    def config(self, given: Mapping[str, Any] | None = None) -> SchedulerConfig:
        """The scheduler's flags: those given, and beside them what a server would derive."""
        given = given or {}
        return SchedulerConfig(**{**self.derived(given), **given})

    def derived(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The flags of DERIVED that are not given, as a server would set them.

        With recorded times it is every flag, as it was in the recorded run: under others those
        times would mean nothing.
        """
        if self.recorded is not None:
            recorded = StoredRun.open(self.recorded).manifest["scheduler"]
            return {name: recorded[name] for name in recorded if name not in given}
        settled = self.batch_limits(given)
        if "num_gpu_blocks" not in given:
            planned = self.pool(given)
            settled["num_gpu_blocks"] = (
                SchedulerConfig.num_gpu_blocks if planned is None else planned.num_gpu_blocks
            )
        return {name: settled[name] for name in DERIVED if name not in given}

    @property
    def utilization(self) -> float:
        """The share of a GPU's memory that may be taken, given or vLLM's."""
        given = self.gpu_memory_utilization
        return DEFAULT_UTILIZATION if given is None else given

    def batch_limits(self, given: Mapping[str, Any]) -> dict[str, int]:
        """Longest sequence, most tokens and most requests of a pass, given or by vLLM's rules.

        vLLM's `engine/arg_utils.py`, `_set_default_max_num_seqs_and_batched_tokens_args`.
        """
        longest = given.get("max_model_len", self.model_spec.max_position_embeddings)
        rule = self.batch_rule(given)
        seqs = given.get("max_num_seqs", rule.max_num_seqs)
        tokens = given.get("max_num_batched_tokens")
        if tokens is None:
            tokens = max(1, min(rule.max_num_batched_tokens, seqs * longest))  # 0: refused as given
        if "max_num_seqs" not in given:
            seqs = min(seqs, tokens)
        return {
            "max_model_len": longest,
            "max_num_batched_tokens": tokens,
            "max_num_seqs": seqs,
        }

    def batch_rule(self, given: Mapping[str, Any]) -> BatchDefaults:
        """Which row of vLLM's table of defaults holds for this GPU."""
        card = self.card or find_gpu(DEFAULT_GPU)
        return batch_defaults(
            card.total_memory_bytes,
            card.name,
            self.usage,
            max_model_len=given.get("max_model_len", self.model_spec.max_position_embeddings),
            enable_chunked_prefill=given.get("enable_chunked_prefill", True),
            behaviour=resolve(
                given.get("vllm_version", SchedulerConfig.vllm_version),
                given.get("behaviours", ""),
            ),
        )

    def pool(self, given: Mapping[str, Any]) -> PoolPlan | None:
        """The KV pool, term by term; None where no GPU's memory is known."""
        card = self.card
        if card is None:
            return None
        limits = self.batch_limits(given)
        return plan_pool(
            PoolRequest(
                self.model_spec,
                card,
                self.utilization,
                dtype=self.weights_dtype,
                block_size=given.get("block_size", SchedulerConfig.block_size),
                tensor_parallel_size=self.tensor_parallel_size,
                max_num_batched_tokens=limits["max_num_batched_tokens"],
                max_num_seqs=limits["max_num_seqs"],
            )
        )

    @cached_property
    def model_spec(self) -> ModelSpec:
        if self.model is None and self._loaded_profile is not None:
            return self._loaded_profile.model
        if self.frontend == "hf":
            _require_torch()
            from schedbench.runner.torch.model.hf import hf_spec  # noqa: PLC0415 (optional)

            return hf_spec(self.model or DEFAULT_MODEL)
        return load_model(self.model or DEFAULT_MODEL)

    @cached_property
    def card(self) -> Gpu | None:
        """The GPU whose memory holds weights and cache; None if it is not in the table."""
        if self.is_torch:
            on_cpu = (self.device or "auto").startswith("cpu")
            name = None if on_cpu else seen_gpu()
            return recognise_gpu(name) if name else None
        if self._loaded_profile is not None:
            card = self._loaded_profile.card()
            return card if card.total_memory_bytes else None
        return find_gpu(self.gpu or DEFAULT_GPU)

    @property
    def weights_dtype(self) -> str:
        """The profile's dtype, or the one that is given, or bfloat16."""
        known = self._loaded_profile
        return known.dtype if known is not None else self.dtype or "bfloat16"

    @cached_property
    def _loaded_profile(self) -> Profile | None:
        return load_profile(Path(self.profile)) if self.profile is not None else None

    def warnings(self, config: SchedulerConfig, given: Mapping[str, Any]) -> list[str]:
        """What vLLM would refuse, or what is not in the figures."""
        found = []
        if self.recorded is not None:
            return []
        room = config.num_gpu_blocks * config.block_size
        if "num_gpu_blocks" not in given and room < config.max_model_len and self.card:
            found.append(
                f"a sequence of --max-model-len {config.max_model_len} does not fit in the "
                f"{config.num_gpu_blocks} KV blocks that {self.model_spec.name} leaves on "
                f"{self.card.name}: vLLM would not start; give --max-model-len {room}"
            )
        if config.pipeline_parallel_size > 1 and self.kind == "model":
            found.append(
                f"--pipeline-parallel-size {config.pipeline_parallel_size} counts as passes in "
                "flight only: times and pool are those of a model that is not split into stages"
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        """What was said, without what was not; `Deployment(**...)` makes it again."""
        plain = Deployment()
        return {
            name: value for name, value in asdict(self).items() if value != getattr(plain, name)
        }


SERVING_AXES: Final = tuple(each.name for each in fields(Deployment))
"""What of a deployment a sweep can vary."""


def _require_torch() -> None:
    if find_spec("torch") is None:
        raise UsageError(
            f"--runner torch needs torch, which is not installed: {remedy('torch')}, "
            "or leave it out for modelled times"
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _readers(name: str) -> list[str]:
    return [kind for kind, names in _MEANT_FOR.items() if name in names]
