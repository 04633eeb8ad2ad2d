"""`schedbench profile`: measure passes on this device and fit a latency profile."""

from pathlib import Path
from typing import Annotated

import typer

from schedbench.bounds import COUNT, SEED, ZIPF
from schedbench.cli import console
from schedbench.cli.values import parse_count, parse_number, parse_optional, parse_value
from schedbench.errors import UsageError
from schedbench.results.extras import remedy

MODEL, LIMITS, OUTPUT = "Model and device", "Limits of a pass", "Output"

Model = Annotated[
    str,
    typer.Option(
        metavar="NAME|PATH",
        help="A built-in model, or a folder with a config.json.",
        rich_help_panel=MODEL,
    ),
]
Device = Annotated[
    str, typer.Option(metavar="DEVICE", help="auto, cuda or cpu.", rich_help_panel=MODEL)
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="bfloat16, float16 or float32.",
        show_default="bfloat16 on a GPU, float32 on a CPU",
        rich_help_panel=MODEL,
    ),
]
Attention = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, triton, gather_varlen, sdpa or loop.",
        rich_help_panel=MODEL,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Local safetensors; random weights without it.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Zipf = Annotated[
    str,
    typer.Option(
        metavar="EXPONENT",
        help="How unevenly tokens go to a mixture's experts; 0 is as the router says.",
        rich_help_panel=MODEL,
    ),
]
Eager = Annotated[bool, typer.Option("--eager", help="Capture no graphs.", rich_help_panel=MODEL)]
Tokens = Annotated[
    str, typer.Option("--max-num-batched-tokens", metavar="N", rich_help_panel=LIMITS)
]
Seqs = Annotated[str, typer.Option("--max-num-seqs", metavar="N", rich_help_panel=LIMITS)]
ModelLen = Annotated[
    str | None,
    typer.Option(
        "--max-model-len", metavar="N", show_default="the model's", rich_help_panel=LIMITS
    ),
]
Blocks = Annotated[
    str | None,
    typer.Option("--num-gpu-blocks", metavar="N", show_default="what fits", rich_help_panel=LIMITS),
]
HeldOut = Annotated[
    str,
    typer.Option(
        metavar="N", help="Passes of a trace to check the fit on.", rich_help_panel=OUTPUT
    ),
]
Seed = Annotated[
    str, typer.Option(metavar="N", help="Seed of grid and trace.", rich_help_panel=OUTPUT)
]
Out = Annotated[
    Path, typer.Option(metavar="DIR", help="Where profile and passes go.", rich_help_panel=OUTPUT)
]


def profile(
    *,
    model: Model = "llama-3.1-8b",
    device: Device = "auto",
    dtype: Dtype = None,
    attention: Attention = "auto",
    weights: Weights = None,
    zipf: Zipf = "0",
    eager: Eager = False,
    max_num_batched_tokens: Tokens = "8192",
    max_num_seqs: Seqs = "512",
    max_model_len: ModelLen = None,
    num_gpu_blocks: Blocks = None,
    held_out: HeldOut = "300",
    seed: Seed = "0",
    out: Out = Path("profiles"),
) -> None:
    """Measure a grid of passes on this device, fit the latency model, check it on other passes.

    schedbench profile --model llama-3.1-8b

    The profile is written as JSON, and every measured pass as Parquet beside it. `schedbench
    replay --profile FILE` uses it anywhere.
    """
    limits = {
        "max_num_batched_tokens": parse_value("max_num_batched_tokens", max_num_batched_tokens),
        "max_num_seqs": parse_value("max_num_seqs", max_num_seqs),
        "max_model_len": parse_optional("max_model_len", max_model_len),
        "num_gpu_blocks": parse_optional("num_gpu_blocks", num_gpu_blocks),
    }
    num_held_out, first = (
        parse_count(held_out, "--held-out", COUNT),
        parse_count(seed, "--seed", SEED),
    )
    exponent = parse_number(zipf, "--zipf", ZIPF)
    require_torch("profile")
    from schedbench.runner.model_config import load_model
    from schedbench.runner.torch.build import EngineOptions
    from schedbench.runner.torch.device import choose_device, choose_dtype
    from schedbench.runner.torch.pool import measuring_config
    from schedbench.runner.torch.profile import profile as measure

    spec, target = load_model(model), choose_device(device)
    config = measuring_config(
        spec,
        target,
        str(choose_dtype(dtype, target)).removeprefix("torch."),
        **limits,
    )
    options = EngineOptions(
        model,
        device,
        dtype,
        attention,  # type: ignore[arg-type]
        weights,
        eager,
        seed=first,
        zipf=exponent,
    )
    measured = measure(
        options, config, out, seed=first, num_held_out=num_held_out, say=console.note
    )
    found = measured.profile
    for name, errors in (("grid", found.fit), ("held out", found.held_out)):
        if errors is not None:
            console.result(
                f"{name}: {errors.num_passes} passes, mean error {errors.mape:.1%}, 95th "
                f"percentile {errors.p95:.1%}, bias of the total {errors.bias:+.1%}"
            )
    console.result(f"drift over the measurement: {measured.drift:+.1%}")
    console.result(f"profile: {measured.path}\npasses:  {measured.passes}")


def require_torch(command: str) -> None:
    """Refuse with the remedy where torch or scipy is absent."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "scipy") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{command} needs {' and '.join(missing)}: {remedy('torch')}")
