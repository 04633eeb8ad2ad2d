"""Spans that vLLM sends with `--otlp-traces-endpoint`, as a collector's file exporter writes them.

One export a line, `{"resourceSpans": [{"scopeSpans": [{"spans": [...]}]}]}`. vLLM makes a span
`llm_request` for each sequence that finished, so that n = 2 gives two; it starts at the arrival.
Aborted requests have none. Times of latencies are seconds, as doubles.
"""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa

from schedbench.workloads.files import Source, faults
from schedbench.workloads.importers.draft import Batches, Draft, Importer
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.times import Clock
from schedbench.workloads.place import Place, shown
from schedbench.workloads.schema import BY_NAME

NAME = "llm_request"
MOST_S = 1e9  # of a latency
START = "startTimeUnixNano"
PROMPT, OUTPUT = "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"
MAX_TOKENS, REQUEST_ID = "gen_ai.request.max_tokens", "gen_ai.request.id"
TTFT, E2E = "gen_ai.latency.time_to_first_token", "gen_ai.latency.e2e"
_NAMES = {
    "arrival_ns": START,
    "prompt_tokens": PROMPT,
    "output_tokens": OUTPUT,
    "max_tokens": MAX_TOKENS,
    "request_id": REQUEST_ID,
}
Attributes = dict[str, Any]


def read(source: Source, _options: ImportOptions, report: Report) -> Draft:
    lines: list[int] = []
    place = replace(source.place, also=lambda row: f"line {lines[row]}" if lines else None)
    spans, others = _requests(source, lines)
    report.drop(others, f"spans other than {NAME}, which are no requests")
    if not spans:
        found = f"holds no span named {NAME}"
        raise place.refuse_input(found, "Run vllm serve with --otlp-traces-endpoint")
    starts = [_time(span, row, place) for row, span in enumerate(spans)]
    told = [_attributes(span) for span in spans]
    table = {
        "arrival_ns": pa.chunked_array([pa.array(starts, pa.timestamp("ns", "UTC"))]),
        "prompt_tokens": _counts(told, PROMPT, place, needed=True),
        "output_tokens": _counts(told, OUTPUT, place, needed=True),
        "max_tokens": _counts(told, MAX_TOKENS, place, needed=False),
        "request_id": pa.array([_text(each.get(REQUEST_ID)) for each in told], pa.string()),
        "observed": _observed(told, place),
    }
    clock, batches = Clock("datetime"), Batches(place)
    arrivals = clock.read(table.pop("arrival_ns"), START, place)
    batches.add(place, arrival_ns=arrivals, **{k: pa.chunked_array([v]) for k, v in table.items()})
    return Draft(batches.table(), clock, replace(place, names=_NAMES))


def _requests(source: Source, lines: list[int]) -> tuple[list[dict[str, Any]], int]:
    """Spans of requests in the file's order, the line of each, and how many others there are."""
    spans, others = [], 0
    with faults(source.place), source.stream() as stream:
        for number, line in enumerate(io.BufferedReader(stream), 1):
            if not line.strip():
                continue
            for span in _spans(line, number, source.place):
                if span.get("name") == NAME:
                    spans.append(span)
                    lines.append(number)
                else:
                    others += 1
    return spans, others


def _spans(line: bytes, number: int, place: Place) -> Iterator[dict[str, Any]]:
    try:
        export = orjson.loads(line)
        for resource in export["resourceSpans"]:
            for scope in resource.get("scopeSpans", ()):
                yield from scope.get("spans", ())
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        found = f"line {number}: is no export of spans ({type(error).__name__}: {error})"
        remedy = "Write one export a line, as the collector's file exporter does; `jq -c .` does it"
        raise place.refuse_input(found, remedy) from error


def _attributes(span: dict[str, Any]) -> Attributes:
    """By key; OTLP writes a value as `{"intValue": "12"}`, 64-bit numbers as text."""
    return {
        each["key"]: next(iter(each.get("value", {}).values()), None)
        for each in span.get("attributes", ())
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _time(span: dict[str, Any], row: int, place: Place) -> int:
    value = span.get(START)
    whole = _whole(value)
    if whole is None or whole <= 0:
        found = "is missing" if value is None else f"{shown(value)} is not a whole number above 0"
        raise place.refuse(row, START, found, "A span starts at Unix nanoseconds")
    return whole


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _counts(told: list[Attributes], name: str, place: Place, *, needed: bool) -> pa.Array:
    counts = []
    for row, attributes in enumerate(told):
        value = attributes.get(name)
        whole = _whole(value)
        if value is None and needed:
            raise place.refuse(row, name, "is missing", "Every request has a count; drop the span")
        if value is not None and (whole is None or not 0 <= whole < 1 << 31):
            found = f"{shown(value)} is not a whole number from 0 to 2,147,483,647"
            raise place.refuse(row, name, found, "Correct the span, or drop it")
        counts.append(whole)
    return pa.array(counts, pa.int32())


def _observed(told: list[Attributes], place: Place) -> pa.Array:
    rows = [
        {"ttft_ns": _seconds(each, TTFT, row, place), "e2e_ns": _seconds(each, E2E, row, place)}
        for row, each in enumerate(told)
    ]
    known = [each if any(value is not None for value in each.values()) else None for each in rows]
    return pa.array(known, BY_NAME["observed"].type)


def _seconds(attributes: Attributes, name: str, row: int, place: Place) -> int | None:
    value = attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < MOST_S:
        found = f"{shown(value)} is not a number of seconds"
        raise place.refuse(row, name, found, "Correct the span, or drop it")
    return round(value * 1e9)


VLLM_SPANS = Importer(
    name="vllm-spans",
    summary="OpenTelemetry spans of vLLM, as a collector's file exporter writes them (JSON Lines)",
    read=read,
)
