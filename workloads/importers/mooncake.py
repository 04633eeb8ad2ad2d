"""Mooncake's published traces, and the session fields that AIPerf added to their form.

`{"timestamp": 3000, "input_length": 1100, "output_length": 52, "hash_ids": [0, 91, 92]}`: whole
milliseconds; one id per 512 tokens, the last one for the partial tail. With `session_id`, a
later turn may state a `delay` after the turn before it instead of a time of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from schedbench.workloads.exact import exactly
from schedbench.workloads.files import Source
from schedbench.workloads.importers.columns_of import with_columns
from schedbench.workloads.importers.delays import arrivals_by_delay, follow_by_delay
from schedbench.workloads.importers.draft import Batches, Draft, Importer, Published, token_counts
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.sessions import in_sessions
from schedbench.workloads.importers.times import JSON_TIME, Clock
from schedbench.workloads.json_lines import first_object, read_json_lines
from schedbench.workloads.place import Place
from schedbench.workloads.schema import BY_NAME

HASH_BLOCK_TOKENS = 512


def fields_of(first: Mapping[str, Any], place: Place) -> dict[str, pa.DataType]:
    """What to parse, by what the first line holds."""
    if "text_input" in first and "input_length" not in first:
        found = "states prompts as text (text_input), and their lengths need a tokenizer"
        raise place.refuse_input(found, "Add input_length to every line")
    fields = {
        "timestamp": JSON_TIME,
        "input_length": pa.int64(),
        "output_length": pa.int64(),
        "hash_ids": BY_NAME["hash_ids"].type,
    }
    if first.keys() & {"session_id", "delay"}:
        is_number = isinstance(first.get("session_id"), int)
        fields |= {"session_id": pa.int64() if is_number else pa.string(), "delay": JSON_TIME}
    return fields


def read(source: Source, options: ImportOptions, _report: Report) -> Draft:
    clock, batches = Clock(options.time_unit or "ms"), Batches(source.place)
    fields = fields_of(first_object(source), source.place)
    for place, lines in read_json_lines(source, fields):
        stamps = lines.column("timestamp")
        if "session_id" in fields:
            arrivals, has_time = clock.read_known(stamps, "timestamp", place)
            delays, has_delay = clock.read_known(lines.column("delay"), "delay", place)
            labels = exactly(lines.column("session_id"), pa.string(), "session_id", place)
            batches.add(
                place, _label=labels, _delay=delays, _has_delay=has_delay, _has_time=has_time
            )
        else:
            arrivals = clock.read(stamps, "timestamp", place)
        batches.add(
            place,
            arrival_ns=arrivals,
            prompt_tokens=token_counts(lines.column("input_length"), "input_length", place),
            output_tokens=token_counts(lines.column("output_length"), "output_length", place),
            hash_ids=exactly(lines.column("hash_ids"), fields["hash_ids"], "hash_ids", place),
        )
    table = batches.table()
    if "session_id" in fields:
        table = arrivals_by_delay(table, batches.place)
    names = {"prompt_tokens": "input_length", "output_tokens": "output_length"}
    place = replace(batches.place, names={"arrival_ns": "timestamp", **names})
    return Draft(table, clock, place, options.block_tokens(HASH_BLOCK_TOKENS))


def link(table: pa.Table, _draft: Draft, report: Report) -> pa.Table:
    if "_label" not in table.column_names:
        return table
    sessions = in_sessions(table.column("_label"))
    return follow_by_delay(with_columns(table, **sessions.columns()), sessions, report)


MOONCAKE = Importer(
    name="mooncake",
    summary="Mooncake traces, with AIPerf's session_id and delay (JSON Lines)",
    read=read,
    link=link,
    options=frozenset({"time_unit", "hash_block_tokens"}),
    published=Published(
        url="https://github.com/kvcache-ai/Mooncake",
        licence="Apache-2.0 (of the repository)",
        attribution="Qin et al., Mooncake (FAST 2025)",
    ),
)
