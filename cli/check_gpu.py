"""`schedbench check-gpu`: is the GPU runner right, fast, and is a fitted model near it."""

from pathlib import Path
from typing import Annotated

import typer

from schedbench.cli import console
from schedbench.cli.profile import require_torch

Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto or cuda.")]
Rehearsal = Annotated[
    bool,
    typer.Option(
        "--rehearsal",
        help="The same rows on a tiny model and any device, without bounds: tests the check.",
    ),
]
Limit = Annotated[
    str, typer.Option(metavar="TIME", help="Begin no row that would not fit in this time.")
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where results and profile go.")]


def check_gpu(
    *,
    device: Device = "auto",
    rehearsal: Rehearsal = False,
    limit: Limit = "9m",
    out: Out = Path("gpu-check"),
) -> None:
    """Prove the GPU runner: kernels, graphs, speed, fit and replay, most important rows first.

    schedbench check-gpu --out results/reference/gpu

    Each row is on disk before the next one begins. Exit code 1 if a row about correctness fails;
    a row about speed that misses its bound fails only itself.
    """
    from schedbench.runner.durations import parse_duration

    limit_s = parse_duration(limit, "--limit") / 1e9
    require_torch("check-gpu")
    from schedbench.runner.torch.check import check_gpu as check

    table = check(out, device=device, limit_s=limit_s, rehearsal=rehearsal, say=console.result)
    console.note(f"results: {out / 'check.json'}, {out / 'check.parquet'}")
    if table.has_failed:
        raise typer.Exit(1)
