"""Spans of vLLM: one request each, and what is wrong with one is said by row and line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedbench.errors import TraceError
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import load_trace

Write = Callable[[str, str | bytes], Path]
START_NS = 1_785_000_000_000_000_000


def attribute(key: str, value: object) -> dict[str, Any]:
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    kind = "doubleValue" if isinstance(value, float) else "stringValue"
    return {"key": key, "value": {kind: value}}


def span(start_ns: int, prompt: int, output: int, **others: object) -> dict[str, Any]:
    told = {
        "gen_ai.usage.prompt_tokens": prompt,
        "gen_ai.usage.completion_tokens": output,
        **{f"gen_ai.{name.replace('__', '.')}": value for name, value in others.items()},
    }
    return {
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spanId": "00f067aa0ba902b7",
        "name": "llm_request",
        "kind": 2,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + 10**9),
        "attributes": [attribute(key, value) for key, value in told.items() if value is not None],
    }


def export(*spans: dict[str, Any]) -> str:
    scope = {"scope": {"name": "vllm.llm_engine"}, "spans": list(spans)}
    resource = {"attributes": [attribute("service.name", "vllm")]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + "\n"


def test_a_span_is_a_request_that_arrived_at_its_start(write: Write) -> None:
    late = span(START_NS + 5_000_000, 30, 4, request__id="b", request__max_tokens=9)
    early = span(START_NS, 100, 7, request__id="a", latency__time_to_first_token=0.125)
    trace = load_trace(write("spans.jsonl", export(late) + "\n" + export(early)))
    assert trace.provenance["format"] == "vllm-spans"
    assert trace.epoch_ns == START_NS
    rows = trace.table.drop_columns(["source_row"]).to_pylist()
    assert rows[0]["arrival_ns"] == 0
    assert (rows[0]["prompt_tokens"], rows[0]["output_tokens"]) == (100, 7)
    assert rows[0]["observed"] == {"ttft_ns": 125_000_000, "e2e_ns": None, "cached_tokens": None}
    assert rows[1]["arrival_ns"] == 5_000_000
    assert (rows[1]["max_tokens"], rows[1]["request_id"]) == (9, "b")
    assert rows[1]["observed"] is None


def test_spans_of_other_work_are_left_out_and_counted(write: Write) -> None:
    loading = {**span(START_NS, 1, 1), "name": "load_model"}
    trace = load_trace(write("spans.jsonl", export(loading, span(START_NS, 10, 2))))
    assert trace.num_requests == 1
    assert trace.provenance["dropped"] == {"spans other than llm_request, which are no requests": 1}


def test_sequences_of_one_request_share_its_id_and_are_told_apart_when_asked(write: Write) -> None:
    twice = export(*(span(START_NS, 10, n, request__id="a", request__n=2) for n in (2, 3)))
    path = write("spans.jsonl", twice)
    with pytest.raises(TraceError, match="--dedupe-ids suffix"):
        load_trace(path)
    trace = load_trace(path, options=ImportOptions(dedupe_ids="suffix"))
    assert trace.table.column("request_id").to_pylist() == ["a", "a-2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            export(span(START_NS, 1, 1)) + export({**span(1, 1, 1), "startTimeUnixNano": "soon"}),
            r"row 1 \(line 2\), column startTimeUnixNano: 'soon' is not a whole number above 0\. A",
        ),
        (
            export(span(START_NS, None, 1)),  # type: ignore[arg-type]
            r"row 0 \(line 1\), column gen_ai.usage.prompt_tokens: is missing\. .* drop the span",
        ),
        (
            export(span(START_NS, 5, -1)),
            r"row 0 .*completion_tokens: '-1' is not a whole number from 0 to .*\. Correct",
        ),
        (
            export(span(START_NS, 5, 1, latency__e2e="long")),
            r"row 0 .*gen_ai.latency.e2e: 'long' is not a number of seconds\. Correct",
        ),
        (
            export({**span(START_NS, 1, 1), "name": "other"}),
            r"holds no span named llm_request\. Run vllm serve with --otlp-traces-endpoint",
        ),
        (
            export(span(START_NS, 1, 1)) + "{}\n",
            r"line 2: is no export of spans .*\. Write one export a line",
        ),
        (
            export(span(START_NS, 5, 0)),
            r"column gen_ai.usage.completion_tokens: 0 output tokens.*--on-zero-output drop",
        ),
    ],
)
def test_what_is_wrong_names_the_row_the_rule_and_the_remedy(
    write: Write, content: str, message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        load_trace(write("spans.jsonl", content))
