"""Options about what serves a trace: model, GPUs, and what says how long a pass takes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from schedbench.bounds import GPUS as GPUS_OF_A_MODEL
from schedbench.bounds import PART, ZIPF
from schedbench.cli import console
from schedbench.cli.command import option
from schedbench.cli.decisions import parse_names
from schedbench.cli.ranges import parse_costs, parse_values
from schedbench.cli.values import parse_count, parse_number, show_value
from schedbench.errors import UnsupportedError
from schedbench.runner.latency.hardware import GPUS
from schedbench.runner.models import BUILT_IN

if TYPE_CHECKING:
    from schedbench.runner.deployment import Deployment

PANEL = "Model, GPU and time"


class _About(NamedTuple):
    """An option's help. Without a metavar it is a switch; `default` is shown, not used."""

    metavar: str
    text: str
    default: str | bool = False


_ABOUT = {
    "model": _About(
        "NAME|DIR",
        f"A built-in model ({', '.join(BUILT_IN)}), or a folder with a config.json.",
        "llama-3.1-8b",
    ),
    "gpu": _About("NAME", f"{', '.join(gpu.name for gpu in GPUS)}.", "H100-SXM"),
    "tensor_parallel_size": _About("N", "GPUs that share the model.", "1"),
    "dtype": _About("NAME", "Of weights and KV cache: bfloat16, float16 or float32.", "bfloat16"),
    "gpu_memory_utilization": _About(
        "SHARE",
        "How much of a GPU's memory weights, passes and KV cache may take.",
        "0.92",
    ),
    "usage": _About(
        "server|llm",
        "By which vLLM's defaults of a pass differ: vllm serve, or the LLM class.",
        "server",
    ),
    "runner": _About(
        "clock|model|torch",
        "What says how long a pass takes: --cost, a model of time, or real forward passes here.",
        "model, or clock with --cost",
    ),
    "cost": _About(
        "KIND:TIME", "Logical time: linear:8ms,0.03ms (base, and for each token) or pass:1ms."
    ),
    "profile": _About("FILE", "Times by a profile that `schedbench profile` fitted."),
    "recorded": _About("RUN", "Times of a stored run; its flags hold where none are given."),
    "frontend": _About(
        "own|hf",
        "Of --runner torch: whose model runs. hf is transformers' own, for more architectures; "
        "not tuned.",
        "own",
    ),
    "device": _About("NAME", "Of --runner torch: auto, cuda or cpu.", "auto"),
    "attention": _About(
        "NAME", "Of --runner torch: auto, triton, gather_varlen, sdpa or loop.", "auto"
    ),
    "weights": _About(
        "DIR", "Of --runner torch: local safetensors; random weights without it.", "random"
    ),
    "zipf": _About(
        "EXPONENT",
        "Of --runner torch: how unevenly tokens go to a mixture's experts.",
        "as the router says",
    ),
    "paranoid": _About(
        "", "Of --runner torch: check in every pass that nobody writes another's block."
    ),
    "enforce_eager": _About("", "No captured graphs: decode passes take some milliseconds more."),
}
VARIED = ("model", "gpu", "tensor_parallel_size", "dtype", "gpu_memory_utilization", "profile",
          "cost")  # fmt: skip
"""What a sweep takes several values of."""

NOT_SWEPT = ("recorded",)
_SPELLED = {"usage": "--usage-context"}
_SHORT = {"tensor_parallel_size": ("-tp",)}


def spelling(name: str) -> str:
    """The option that says a field of a Deployment."""
    return _SPELLED.get(name, f"--{name.replace('_', '-')}")


@dataclass(frozen=True)
class Serving:
    """What was said of model, GPU and time, by field of a Deployment."""

    given: dict[str, Any]

    @classmethod
    def options(cls) -> Iterator[Parameter]:
        for name in _ABOUT:
            yield option(name, _annotated(name), None)

    @classmethod
    def of(cls, **options: Any) -> Self:  # noqa: ANN401 - texts, and one switch
        """Read the values as they were typed. Raises UsageError."""
        known = {name: value for name, value in options.items() if value is not None}
        return cls({name: parse_serving(name, value) for name, value in known.items()})


@dataclass(frozen=True)
class ServingLists:
    """The same for a sweep: several values of what can vary."""

    given: dict[str, list[Any]]

    @classmethod
    def options(cls) -> Iterator[Parameter]:
        for name in _ABOUT:
            if name not in NOT_SWEPT:
                yield option(name, _annotated(name, is_list=name in VARIED), None)

    @classmethod
    def of(cls, **options: Any) -> Self:  # noqa: ANN401
        """Read the values as they were typed. Raises UsageError."""
        return cls(
            {name: _values(name, value) for name, value in options.items() if value is not None}
        )


def _annotated(name: str, *, is_list: bool = False) -> Any:  # noqa: ANN401 - a type
    about = _ABOUT[name]
    switch = not about.metavar
    names = [spelling(name), *_SHORT.get(name, ())]
    if switch:
        names = [f"{names[0]}/--no-{names[0].removeprefix('--')}"]
    declared = typer.Option(
        *names,
        metavar=None if switch else f"{about.metavar},..." if is_list else about.metavar,
        help=about.text,
        show_default=about.default,
        rich_help_panel=PANEL,
    )
    return Annotated[bool | None if switch else str | None, declared]


def parse_serving(name: str, value: Any) -> Any:  # noqa: ANN401 - by the field's type
    """One value of a field. Raises UsageError."""
    match name:
        case "tensor_parallel_size":
            return parse_count(value, spelling(name), GPUS_OF_A_MODEL)
        case "gpu_memory_utilization":
            return parse_number(value, spelling(name), PART)
        case "zipf":
            return parse_number(value, spelling(name), ZIPF)
    return value


def _values(name: str, value: Any) -> list[Any]:  # noqa: ANN401
    if name not in VARIED:
        return [parse_serving(name, value)]
    match name:
        case "cost":
            return parse_costs(value)
        case "tensor_parallel_size":
            return parse_values(value, spelling(name), int, lambda word: parse_serving(name, word))
        case "gpu_memory_utilization":
            return parse_values(
                value, spelling(name), float, lambda word: parse_serving(name, word)
            )
    return parse_names(value, spelling(name))


def make_deployment(given: Mapping[str, Any], served: Mapping[str, str]) -> "Deployment":
    """What serves, from single options and `--serve-args`; the single ones win, and it is said."""
    from schedbench.runner.deployment import Deployment

    from_server = {name: parse_serving(name, text) for name, text in served.items()}
    for name in given.keys() & from_server.keys():
        if given[name] != from_server[name]:
            console.note(
                f"{spelling(name)} is {show_value(given[name])} as given, "
                f"not {show_value(from_server[name])} as in --serve-args"
            )
    return Deployment(**{**from_server, **given})


def assumed_serving(deployment: "Deployment", *, plans_pool: bool) -> dict[str, str]:
    """What nobody said of model and GPU, where it makes a difference."""
    from schedbench.runner.kvpool import DEFAULT_UTILIZATION
    from schedbench.runner.latency.select import DEFAULT_GPU, DEFAULT_MODEL

    if deployment.recorded is not None or deployment.profile is not None:
        return {}
    found = {}
    models_time = deployment.kind == "model"
    if deployment.model is None and (plans_pool or deployment.kind != "clock"):
        found["--model"] = DEFAULT_MODEL
    if deployment.gpu is None and not deployment.is_torch and (plans_pool or models_time):
        found["--gpu"] = DEFAULT_GPU
    if deployment.gpu_memory_utilization is None and plans_pool:
        found["--gpu-memory-utilization"] = show_value(DEFAULT_UTILIZATION)
    return found


def tell_idle_gpu(deployment: "Deployment") -> None:
    """Say that a GPU is there and not used."""
    from schedbench.runner.gpus import seen_gpu

    if not deployment.is_torch and (name := seen_gpu()):
        console.note(f"{name} is seen and not used; --runner torch runs every pass on it")


UNMODELLED_NAMES = {
    re.compile(
        r"gpt-oss|gemma-?[234]|llama-?4|qwen3(-next|\.5)|nemotron-?(h|nano|3)|granite-?4|kimi-linear"
        r"|jamba|mamba|bamba|zamba|falcon-h1|lfm2|olmo-?3|exaone-?4|minimax|command-(a|r7b)|phi-?4-mini-flash"
    ): "layers of several kinds (a window, or state instead of KV), each with a cache of its own",
    re.compile(r"fp8|nvfp4|mxfp4|awq|gptq|int[48]\b|w[48]a\d+|bnb|gguf|bitnet"): (
        "quantised weights"
    ),
}
"""By what a model is called: why its pool and its times are not derived here."""


def refuse_unmodelled(name: str) -> None:
    """Refuse a model by name where a folder with its config.json would be refused.

    Raises:
        UnsupportedError: the name is that of a model with several kinds of layers, or quantised.
    """
    called = name.rstrip("/").rpartition("/")[2].lower()
    for pattern, why in UNMODELLED_NAMES.items():
        if pattern.search(called) and not (Path(name) / "config.json").is_file():
            raise UnsupportedError(
                f"--serve-args: {name} has {why}, which is not modelled; give --model with one of "
                f"{', '.join(BUILT_IN)}, or with the folder of a config.json"
            )


def known_model(name: str) -> str | None:
    """What to take for a model as `vllm serve` names it: a built-in, or a local folder."""
    if (Path(name) / "config.json").is_file():
        return name
    short = name.rpartition("/")[2].lower().removeprefix("meta-")
    variant = re.compile(r"(-(instruct|base|chat|thinking|hf))?(-\d{4})?")
    return next(
        (known for known in BUILT_IN
         if short.startswith(known) and variant.fullmatch(short[len(known):])),
        None,
    )  # fmt: skip
