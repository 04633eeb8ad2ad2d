"""JSON, CSV and Markdown say the same as the table, for programs."""

import csv
import io
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from schedbench.results.catalog import flatten
from schedbench.results.export import Format, as_csv, as_json, as_markdown, write_view
from schedbench.results.metrics import summarize
from schedbench.results.sheet import Cell, Heading, Sheet, View
from schedbench.results.summary_sheets import run_view


@pytest.fixture
def summary(made_up: Callable[..., Any]) -> dict[str, Any]:
    run = made_up(3).in_memory()
    return summarize(run.passes.table(), run.requests.table(), run.itl.table())


def test_json_is_the_summary_itself_and_the_warnings(summary: dict[str, Any]) -> None:
    view = run_view("made up", summary, warnings=["look out"])
    assert orjson.loads(as_json(view)) == {**summary, "warnings": ["look out"]}


def test_csv_has_each_number_of_the_summary_once(summary: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(run_view("made up", summary)))))
    expected = {key: "" if value is None else str(value) for key, value in flatten(summary)}
    assert {row["metric"]: row["value"] for row in rows} == expected


def test_text_from_a_trace_cannot_become_markup() -> None:
    sheet = Sheet("", (Heading("id", is_number=False),), ((Cell("a|b<script>*"),),))
    assert r"| a\|b\<script\>\* |" in as_markdown(View("", (sheet,), sheet, {}))


@pytest.mark.parametrize("form", Format)
def test_every_format_ends_with_a_line_end(summary: dict[str, Any], form: Format) -> None:
    file = io.StringIO()
    write_view(run_view("made up", summary), form, file)
    assert file.getvalue().endswith("\n")
