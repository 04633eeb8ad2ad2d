"""Every bad file of docs/bad-input.md is refused by name, or read as its option says."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def page_maker(name: str) -> ModuleType:
    path = Path(__file__).parents[3] / "docs" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = page_maker("make_bad_input")
PIECES = [
    b"null",
    b"-1",
    b"1.5",
    b'"x"',
    b"[]",
    b"{}",
    b"true",
    b"1e999",
    b"\n",
    b",",
    b"NaN",
    b'"',
]
CASES = [case for cases in PAGE.SECTIONS.values() for case in cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_bad_file_is_refused_by_name_or_read_as_its_option_says(case: PAGE.Case) -> None:
    is_refused, text = PAGE.answer(case)
    assert is_refused == case.is_refused, text
    assert [piece for piece in case.says if piece not in text] == [], text


@pytest.mark.parametrize("case", PAGE.RUNS, ids=lambda case: case.title)
def test_a_trace_that_does_not_fit_is_refused_or_told_of_by_the_replay(case: PAGE.Run) -> None:
    code, text = PAGE.ran(case)
    assert code == case.code, text
    assert [piece for piece in case.says if piece not in text] == [], text


def test_every_kind_of_bad_input_has_a_place_on_the_page() -> None:
    titles = " ".join(case.title for case in (*CASES, *PAGE.RUNS))
    shown = {int(each) for each in re.findall(r"B(\d+)", titles)}
    assert shown | {int(kind[1:]) for kind in PAGE.KINDS_ELSEWHERE} == set(range(1, 33))


def test_a_csv_and_a_jsonl_of_one_content_have_one_digest() -> None:
    digests = [PAGE.ran(case)[1].split()[-1] for case in PAGE.RUNS if "B21" in case.title]
    assert len(digests) == 2
    assert len(set(digests)) == 1
    assert digests[0].startswith("sha256:")


def test_every_refusal_ends_with_a_remedy_and_spans_one_line() -> None:
    for case in CASES:
        is_refused, text = PAGE.answer(case)
        if is_refused and not text.startswith("error: --"):
            assert text.count("\n") == 0, text
            assert text.count(". ") >= 1 or "; " in text, text


@given(st.sampled_from(CASES), st.data())
@settings(deadline=None)
def test_no_damage_to_a_file_ends_in_anything_but_a_refusal(case: PAGE.Case, data: Any) -> None:  # noqa: ANN401
    content = case.content if isinstance(case.content, bytes) else case.content.encode()
    place = st.integers(0, len(content))
    for _ in range(data.draw(st.integers(1, 3))):
        first, end = sorted((data.draw(place), data.draw(place)))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=3))
        content = content[:first] + piece + content[first if data.draw(st.booleans()) else end :]
    PAGE.answer(replace(case, name=case.name or "trace", content=content))


@pytest.mark.parametrize("maker", [PAGE, page_maker("make_trace_format")])
def test_the_pages_say_what_the_code_says(maker: ModuleType) -> None:
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page()
