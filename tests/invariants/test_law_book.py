"""docs/invariants.md and the laws that tests hold are the same, number by number."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from laws import PASS_LAWS, STATE_LAWS
from run_laws import RUN_LAWS

ROOT = Path(__file__).parents[2]
NOTICED = ROOT / "tests" / "invariants" / "test_laws_notice.py"
BESIDE = {12, 18, 19}
"""Laws that compare two runs: what would break them is the other run."""


@pytest.fixture(scope="module")
def book() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "make_invariants.py"))


def test_the_page_is_what_its_script_makes(book: dict[str, Any]) -> None:
    assert book["PAGE"].read_text() == book["page"]()


def test_each_law_is_held_by_the_function_that_the_page_names(book: dict[str, Any]) -> None:
    laws = book["LAWS"]
    assert list(laws) == list(range(1, len(laws) + 1))
    for law in laws.values():
        tree = ast.parse((ROOT / law.file).read_text())
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert law.function in names, law


def test_each_function_that_holds_a_law_is_on_the_page_under_its_number(
    book: dict[str, Any],
) -> None:
    for number, function in (STATE_LAWS | PASS_LAWS | RUN_LAWS).items():
        assert book["LAWS"][number].function == function.__name__


def test_each_law_about_one_run_is_shown_to_notice_what_breaks_it(book: dict[str, Any]) -> None:
    text = NOTICED.read_text()
    planted = {int(each) for each in re.findall(r"^    \((\d+), _", text, re.MULTILINE)}
    shown = {int(each) for each in re.findall(r"def test_law_(\d+)_notices", text)}
    assert planted | shown == set(book["LAWS"]) - BESIDE


def test_every_number_that_the_laws_raise_is_on_the_page(book: dict[str, Any]) -> None:
    said = set[int]()
    for name in ("laws", "run_laws", "watched"):
        text = (ROOT / "tests" / "support" / f"{name}.py").read_text()
        said |= {int(each) for each in re.findall(r"(?:law |broken\()(\d+)", text)}
    assert said <= set(book["LAWS"])
    assert said
