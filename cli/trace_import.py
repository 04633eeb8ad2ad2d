"""`schedbench trace import`: any known format to this project's schema."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schedbench.cli.options import Printing
from schedbench.cli.reading import Reading, import_options
from schedbench.cli.trace_files import Target, TraceToRead
from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.results.sheet import View


def import_(*, trace: TraceToRead, reading: Reading, target: Target, printing: Printing) -> None:
    """Import a trace, and say what was guessed about it.

    schedbench trace import conv.csv.gz -o conv.parquet

    schedbench trace import log.csv --map arrival=ts:ms,prompt=isl,output=osl -o log.parquet

    schedbench trace import recordings/20260731T141503Z-engine0 -o served.parquet

    schedbench trace import server.log --input-format vllm-iterations -o runs/served
    """
    from schedbench.cli.print_view import print_view
    from schedbench.cli.trace_sheets import written_view
    from schedbench.results import iteration_log
    from schedbench.workloads.importers.registry import import_trace

    target.check()
    options = import_options(reading)
    if reading.input_format == iteration_log.NAME:
        if options.changed():
            raise UsageError(f"{iteration_log.NAME} is read without options; leave them out")
        print_view(_run_view(trace, target), printing.chosen)
        return
    imported = import_trace(trace, fmt=reading.input_format, options=options)
    target.write(imported)
    told = list(_told(imported.provenance, was_given=reading.input_format is not None))
    print_view(written_view(imported, target.file, told), printing.chosen)


def _run_view(log: str, target: Target) -> "View":
    """Passes that a server logged become a run folder, for `compare`."""
    from pathlib import Path

    from schedbench.cli.trace_sheets import view_of
    from schedbench.results.iteration_log import import_iterations
    from schedbench.results.units import duration, number

    found = import_iterations(Path(log), target.file)
    rows = [
        ("passes", number(found.passes)),
        ("busy", duration(found.busy_ns)),
        *(("note", note) for note in found.notes),
        ("written to", str(target.file)),
        ("next", f"schedbench compare RUN {target.file} --across-traces"),
    ]
    data = {"path": str(target.file), "passes": found.passes, "notes": list(found.notes)}
    return view_of(rows, data)


def _told(found: dict[str, Any], *, was_given: bool) -> Iterator[tuple[str, str]]:
    """Format, unit, zone and tick as they were read, and every row that was not kept as it was."""
    yield "format", found["format"] if was_given else f"{found['format']} (by its content)"
    yield "read", f"{found['rows_read']:,} rows"
    yield "times", found["notes"][0].partition("; times ")[2]
    for note in found["notes"][1:]:
        yield "note", note
    for doubt in found.get("doubts", ()):
        yield "doubt", doubt
    if found["tick"]:
        yield "clock tick", _tick(found["tick"])
    if found["inferred"]:
        yield "inferred", ", ".join(found["inferred"])
    if published := found.get("published"):
        yield "published", f"{published['url']}, {published['licence']}"


def _tick(tick: dict[str, int]) -> str:
    from schedbench.results.units import duration, number

    return f"{duration(tick['tick_ns'])}; up to {number(tick['most_at_once'])} requests at once"
