"""BurstGPT: six columns in v1.1, eight in v1.2, read by name since their order differs.

Times are seconds since the first day's midnight, local, mostly whole; a failed request has no
response tokens; `Elapsed time` runs from submission to the last token.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import required
from schedbench.workloads.csv_text import header_line, names_in, read_csv_text
from schedbench.workloads.files import Source
from schedbench.workloads.importers.columns_of import nullable, with_columns
from schedbench.workloads.importers.draft import Batches, Draft, Importer, Published, token_counts
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.sessions import Rows, in_sessions
from schedbench.workloads.importers.times import Clock
from schedbench.workloads.schema import BY_NAME, REQUIRED

_NUMBERS = ("Timestamp", "Request tokens", "Response tokens")
_ALWAYS = (*_NUMBERS, "Model", "Log Type")
_SESSION, _ELAPSED = "Session ID", "Elapsed time"


def read(source: Source, options: ImportOptions, _report: Report) -> Draft:
    header = names_in(header_line(source))
    extra = [name for name in (_SESSION, _ELAPSED) if name in header]
    clock, batches = Clock(options.time_unit or "s"), Batches(source.place)
    for place, text in read_csv_text(source, (*_ALWAYS, *extra)):
        batches.add(
            place,
            arrival_ns=clock.read(text.column("Timestamp"), "Timestamp", place),
            prompt_tokens=token_counts(text.column("Request tokens"), "Request tokens", place),
            output_tokens=token_counts(text.column("Response tokens"), "Response tokens", place),
            group=pc.binary_join_element_wise(text.column("Model"), text.column("Log Type"), " / "),
        )
        if _SESSION in extra:
            labels = text.column(_SESSION)
            batches.add(place, _label=pc.if_else(pc.equal(labels, ""), None, labels))
        if _ELAPSED in extra:
            batches.add(place, _elapsed=clock.read(text.column(_ELAPSED), _ELAPSED, place))
    names = dict(zip(REQUIRED, _NUMBERS, strict=True))
    return Draft(batches.table(), clock, replace(batches.place, names=names))


def link(table: pa.Table, _draft: Draft, report: Report) -> pa.Table:
    if "_elapsed" in table.column_names:
        table = with_columns(table, observed=_observed(table.column("_elapsed")))
    if "_label" not in table.column_names:
        return table
    sessions = in_sessions(table.column("_label"))
    table = with_columns(table, **sessions.columns())
    return (
        table
        if "_elapsed" not in table.column_names
        else _thinking(table, sessions.previous, report)
    )


def _observed(elapsed: pa.ChunkedArray) -> pa.Array:
    arrow, rows = BY_NAME["observed"].type, len(elapsed)
    fields = [pa.nulls(rows, pa.int64()), elapsed.combine_chunks(), pa.nulls(rows, pa.int32())]
    return pa.StructArray.from_arrays(fields, fields=list(arrow))


def _thinking(table: pa.Table, previous: Rows, report: Report) -> pa.Table:
    """A turn follows the one before it, after the time that its user took; overlaps do not."""
    arrivals, elapsed = required(table, "arrival_ns"), table.column("_elapsed").to_numpy()
    follows = previous >= 0
    think = np.where(follows, arrivals - (arrivals + elapsed)[previous], -1)
    overlaps = follows & (think < 0)
    report.change(
        int(overlaps.sum()),
        "turns that began before the one before them ended, which wait for none",
    )
    after = np.where(overlaps, -1, previous)
    return with_columns(table, after=nullable(after), think_ns=pa.array(think, mask=after < 0))


BURSTGPT = Importer(
    name="burstgpt",
    summary="BurstGPT v1.1 and v1.2 (CSV)",
    read=read,
    link=link,
    options=frozenset({"time_unit"}),
    published=Published(
        url="https://github.com/HPMLL/BurstGPT",
        licence="CC BY 4.0",
        attribution="Wang et al., BurstGPT (KDD 2025)",
    ),
)
