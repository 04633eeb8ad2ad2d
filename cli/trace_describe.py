"""`schedbench trace describe`: what a trace holds and demands."""

from typing import Annotated

import typer

from schedbench.bounds import INT32_MAX, SOME, Bounds
from schedbench.cli.inputs import Input
from schedbench.cli.options import Printing, TraceFile, Window
from schedbench.cli.reading import Reading
from schedbench.cli.values import parse_count, parse_optional_count

CONTEXT = Bounds(2, INT32_MAX)  # a prompt token and an output token

BlockSize = Annotated[
    str, typer.Option(metavar="N", help="Tokens in a KV block, for what prefix caching can save.")
]
MaxModelLen = Annotated[
    str | None,
    typer.Option(
        metavar="N", help="Also say what does not fit into this context.", show_default=False
    ),
]


def describe(
    *,
    trace: TraceFile = None,
    window: Window,
    block_size: BlockSize = "16",
    max_model_len: MaxModelLen = None,
    reading: Reading,
    printing: Printing,
) -> None:
    """Describe a trace: lengths, rate and burstiness, ideal prefix reuse, what looks wrong.

    schedbench trace describe conv.parquet --max-model-len 16K
    """
    from schedbench.cli import console
    from schedbench.cli.print_view import print_view
    from schedbench.cli.trace_sheets import described
    from schedbench.workloads.describe import describe as describe_trace

    loaded = Input(trace, reading, window).load()
    found = describe_trace(
        loaded,
        block_size=parse_count(block_size, "--block-size", SOME),
        max_model_len=parse_optional_count(max_model_len, "--max-model-len", CONTEXT),
    )
    print_view(described(loaded, found), printing.chosen)
    for finding in found.findings:
        console.warning(finding.text)
