"""A draft becomes a Trace: order, links, ids, ticks, limit, provenance, and notes for people."""

from collections import Counter
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.errors import UsageError
from schedbench.workloads.arrays import required
from schedbench.workloads.files import Source, faults
from schedbench.workloads.importers.answers import with_answer_ids
from schedbench.workloads.importers.columns_of import replaced
from schedbench.workloads.importers.draft import Draft, Importer
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.settle import settle
from schedbench.workloads.importers.ticks import Tick, spread_over, tick_of
from schedbench.workloads.importers.times import unlikely_unit
from schedbench.workloads.place import counted
from schedbench.workloads.trace import Trace

_DAY_S, _HOUR_S, _MINUTE_S, _NS = 86_400, 3_600, 60, 10**9


def publish(importer: Importer, source: Source, options: ImportOptions) -> Trace:
    """Import one file; raises TraceError for the first row that breaks a rule."""
    with faults(source.place):
        return _published(importer, source, options)


def _published(importer: Importer, source: Source, options: ImportOptions) -> Trace:
    report = Report()
    draft = importer.read(source, options, report)
    report.change(draft.clock.rounded, "times with digits below 1 ns, rounded")
    table, origin_ns = settle(draft.table, options, draft.place, report)
    table = importer.link(table, draft, report)
    table = with_answer_ids(table, draft.hash_block_tokens, report)
    table = _with_unique_ids(table, options, report)
    tick = tick_of(required(table, "arrival_ns"), origin_ns)
    table, shift_ns = _spread(table, tick, options, report)
    table = _limited(table, options, source)
    origin_ns += shift_ns
    report.notes.insert(0, _summary(table, draft))
    doubt = unlikely_unit(draft.clock, origin_ns, required(table, "arrival_ns").astype(np.int64))
    return Trace(
        table=table.select([name for name in table.column_names if not name.startswith("_")]),
        hash_block_tokens=draft.hash_block_tokens,
        epoch_ns=origin_ns if draft.clock.is_wall else None,
        provenance={
            "format": importer.name,
            "files": [source.fingerprint()],
            **({"published": asdict(importer.published)} if importer.published else {}),
            "options": options.changed(),
            "rows_read": draft.table.num_rows,
            "dropped": report.dropped,
            "changed": report.changed,
            "clock": {**draft.clock.provenance(), "origin_ns": origin_ns},
            "tick": tick.provenance() if tick else None,
            "inferred": report.inferred,
            "transforms": [],
            "notes": report.notes,
            **({"doubts": [doubt]} if doubt else {}),
        },
        path=source.uri,
    )


def _with_unique_ids(table: pa.Table, options: ImportOptions, report: Report) -> pa.Table:
    """With `--dedupe-ids suffix`, the second `a` becomes `a-2`; else repeats stay an error."""
    if options.dedupe_ids is None or "request_id" not in table.column_names:
        return table
    labels = table.column("request_id").to_pylist()
    taken, seen, unique = set(labels), Counter[str](), []
    for label in labels:
        seen[label] += 1
        new, number = label, seen[label]
        while label is not None and number > 1 and (new := f"{label}-{number}") in taken:
            number += 1
        taken.add(new)
        unique.append(new)
    renamed = sum(old != new for old, new in zip(labels, unique, strict=True))
    report.change(renamed, "repeated request ids, told apart by a suffix")
    return replaced(table, "request_id", pa.array(unique, pa.string()))


def _spread(
    table: pa.Table, tick: Tick | None, options: ImportOptions, report: Report
) -> tuple[pa.Table, int]:
    """The table, and by how much its first arrival moved."""
    if not options.spread:
        if tick is not None and tick.is_coarse:
            report.notes.append(tick.note())
        return table, 0
    if "added_ns" in table.column_names:
        raise UsageError("--spread moves arrivals, but the file states when each was added")
    if tick is None or not tick.is_coarse:
        report.notes.append("the clock is not coarse: --spread changed nothing")
        return table, 0
    arrivals = spread_over(required(table, "arrival_ns"), tick, options.seed)
    told = f"arrivals spread over ticks of {tick.tick_ns / _NS:g} s, seed {options.seed}"
    report.change(len(arrivals), told)
    first = int(arrivals[0])
    return replaced(table, "arrival_ns", pa.array(arrivals - first)), first


def _limited(table: pa.Table, options: ImportOptions, source: Source) -> pa.Table:
    if options.limit is None:
        return table
    if options.limit > table.num_rows:
        found = f"holds {counted(table.num_rows, 'request')}, and {options.limit} were asked for"
        raise source.place.refuse_input(found, f"Use --limit {table.num_rows} or less")
    return table.slice(0, options.limit)


def _summary(table: pa.Table, draft: Draft) -> str:
    """Requests, duration and unit: what a wrong time unit shows in first."""
    span_ns = pc.max(table.column("arrival_ns")).as_py()
    over = f" over {_duration(span_ns)}" if span_ns else ""
    return f"{counted(table.num_rows, 'request')}{over}; times read as {draft.clock.told()}"


def _duration(span_ns: int) -> str:
    seconds = span_ns / _NS
    for unit, name in ((_DAY_S, "days"), (_HOUR_S, "hours"), (_MINUTE_S, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:g} s"
