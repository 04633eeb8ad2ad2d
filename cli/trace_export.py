"""`schedbench trace export`: the same traffic for a real server."""

from schedbench.cli.inputs import Input
from schedbench.cli.options import Printing, Window
from schedbench.cli.reading import Reading
from schedbench.cli.trace_files import Target, TraceToRead


def export(
    *,
    trace: TraceToRead,
    window: Window,
    reading: Reading,
    target: Target,
    printing: Printing,
) -> None:
    """Write a trace for `vllm bench serve --dataset-name timed_trace`, and print that command.

    schedbench trace export conv.parquet -o conv.jsonl
    """
    from schedbench.cli import console
    from schedbench.cli.print_view import print_view
    from schedbench.cli.trace_sheets import view_of
    from schedbench.workloads.export import export_timed_trace

    target.check()
    loaded = Input(trace, reading, window).load()
    exported = export_timed_trace(loaded, target.file)
    rows = [
        ("requests", f"{loaded.num_requests:,}"),
        ("written to", str(target.file)),
        ("replay it", exported.command),
    ]
    data = {
        "path": str(target.file),
        "requests": loaded.num_requests,
        "command": exported.command,
        "left_out": list(exported.left_out),
    }
    print_view(view_of(rows, data), printing.chosen)
    if exported.left_out:
        console.warning(f"timed_trace has no place for {', '.join(exported.left_out)}: left out")
