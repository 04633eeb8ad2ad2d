"""`schedbench trace check`: does it keep the rules, and does anything look odd."""

from typing import Annotated

import typer

from schedbench.cli.inputs import Input
from schedbench.cli.options import Printing, Window
from schedbench.cli.reading import Reading
from schedbench.cli.trace_describe import CONTEXT, MaxModelLen
from schedbench.cli.trace_files import TraceToRead
from schedbench.cli.values import parse_optional_count

Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything looks odd.")]


def check(
    *,
    trace: TraceToRead,
    strict: Strict = False,
    max_model_len: MaxModelLen = None,
    window: Window,
    reading: Reading,
    printing: Printing,
) -> None:
    """Check a trace row by row: exit code 2 and the row if a rule is broken; else what looks odd.

    schedbench trace check log.csv --map arrival=ts:ms,prompt=isl,output=osl
    """
    from schedbench.cli.print_view import print_view
    from schedbench.cli.trace_sheets import (
        arrival_rows,
        findings_sheet,
        import_rows,
        view_of,
    )
    from schedbench.workloads.describe import describe as describe_trace

    loaded = Input(trace, reading, window).load()
    most = parse_optional_count(max_model_len, "--max-model-len", CONTEXT)
    found = describe_trace(loaded, max_model_len=most)
    odd = len(found.findings)
    verdict = f"{odd} thing{'s'[: odd != 1]} look{'s'[: odd == 1]} odd" if odd else "nothing is odd"
    many = loaded.num_requests
    kept = f"{many:,} requests keep" if many != 1 else "1 request keeps"
    rows = [
        (trace, f"{kept} every rule; {verdict}"),
        *arrival_rows(found),
        *import_rows(loaded.provenance),
    ]
    data = {
        "path": trace,
        "requests": loaded.num_requests,
        "digest": loaded.digest,
        "findings": [
            {
                "what": each.oddity.value,
                "rows": each.rows,
                "first_rows": each.first_rows,
                "text": each.text,
            }
            for each in found.findings
        ],
    }
    sheets = [findings_sheet(found)] if odd else []
    print_view(view_of(rows, data, sheets), printing.chosen)
    if strict and odd:
        raise typer.Exit(1)
