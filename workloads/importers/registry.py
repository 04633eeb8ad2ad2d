"""Every format that can be imported, and the two ways in."""

import os

from schedbench.errors import UsageError
from schedbench.workloads.csv_text import refuse_headless
from schedbench.workloads.files import Source, faults, find
from schedbench.workloads.importers.azure import AZURE
from schedbench.workloads.importers.bailian import BAILIAN
from schedbench.workloads.importers.burstgpt import BURSTGPT
from schedbench.workloads.importers.columns import COLUMNS
from schedbench.workloads.importers.mooncake import MOONCAKE
from schedbench.workloads.importers.options import DEFAULT_OPTIONS, ImportOptions
from schedbench.workloads.importers.publish import publish
from schedbench.workloads.importers.recording import NAME as RECORDING
from schedbench.workloads.importers.recording import (
    import_recording,
    is_recording,
    refuse_what_is_none,
)
from schedbench.workloads.importers.suggest import suggested_mapping
from schedbench.workloads.importers.vllm_spans import VLLM_SPANS
from schedbench.workloads.sniff import OWN_FORMAT, columns_of, describe_head, kind_of, sniff
from schedbench.workloads.store import read_trace
from schedbench.workloads.trace import Trace

ALL = (AZURE, MOONCAKE, BURSTGPT, BAILIAN, VLLM_SPANS, COLUMNS)
IMPORTERS = {importer.name: importer for importer in ALL}

_OF_SOME_FORMATS = frozenset().union(*(importer.options for importer in IMPORTERS.values()))
"""Options that would be without effect on formats that do not list them."""

_ITERATION = b"Iteration("
_HEAD_BYTES = 1 << 20


def load_trace(
    path: str | os.PathLike[str],
    *,
    fmt: str | None = None,
    options: ImportOptions = DEFAULT_OPTIONS,
) -> Trace:
    """A trace of any kind: read if it is in the canonical schema, else imported.

    Raises TraceError naming row, column, rule and remedy; UsageError for options that do not fit.
    """
    if fmt in (None, RECORDING) and is_recording(path):
        return import_recording(path, options)
    refuse_what_is_none(path, is_asked=fmt == RECORDING)
    named = fmt or ("columns" if options.mapping else sniff(path))
    if named != OWN_FORMAT:
        return import_trace(path, fmt=named, options=options)
    if unfit := options.changed().keys() - {"limit"}:
        flag = min(unfit).replace("_", "-")
        raise UsageError(f"--{flag} is for imports, and {path} is in the canonical schema already")
    return read_trace(path, limit=options.limit)


def import_trace(
    path: str | os.PathLike[str],
    *,
    fmt: str | None = None,
    options: ImportOptions = DEFAULT_OPTIONS,
) -> Trace:
    """Import a file of another format: `fmt` by name, or found out by the file's content."""
    if fmt in (None, RECORDING) and is_recording(path):
        return import_recording(path, options)
    refuse_what_is_none(path, is_asked=fmt == RECORDING)
    source = find(path)
    named = fmt or ("columns" if options.mapping else sniff(path))
    if named is None:
        if kind_of(source) == "csv":
            refuse_headless(source)
        found = f"is of no format known here; it holds {describe_head(source)}"
        raise source.place.refuse_input(found, _remedy(source))
    if named == OWN_FORMAT:
        raise UsageError(f"{path} is in the canonical schema already: there is nothing to import")
    if named not in IMPORTERS:
        listed = ", ".join((*IMPORTERS, RECORDING))
        raise UsageError(f"there is no importer {named!r}; there are {listed}")
    importer = IMPORTERS[named]
    if unfit := options.changed().keys() & (_OF_SOME_FORMATS - importer.options):
        flag = min(unfit).replace("_", "-")
        raise UsageError(f"--{flag} has no effect on the format {named}; leave it out")
    return publish(importer, source, options)


def _remedy(source: Source) -> str:
    """How a file whose columns say nothing is read, as far as its head tells."""
    with faults(source.place):
        is_log = _ITERATION in source.head(_HEAD_BYTES)
    if is_log:
        return (
            "It has iterations that a server logged: `schedbench trace import "
            f"{source.uri} --input-format vllm-iterations -o RUN` makes a run of them"
        )
    return (
        f"Name its columns, likely {suggested_mapping(columns_of(source))}; numbers that are times "
        "have a unit, s, ms, us or ns, and dates as text :datetime"
    )
