"""The page of questions answers all of them, and with commands that there are."""

import itertools
import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from schedbench.cli.main import app

DOCS = Path(__file__).parents[3] / "docs"
MADE = runpy.run_path(str(DOCS / "make_questions.py"))
WRITES = ("-o", "--out", "--baseline", ">")
PAGE = (DOCS / "questions.md").read_text(encoding="utf-8")


def test_the_page_begins_as_its_maker_has_it_and_names_what_a_question_needs() -> None:
    assert PAGE.startswith(MADE["HEAD"])
    for question in MADE["QUESTIONS"]:
        assert not question.needs or f"`{question.needs}`" in question.look
        assert not question.needs or f"{question.number}\nruns a model" in MADE["HEAD"]


def test_there_are_twenty_two_questions() -> None:
    assert [each.number for each in MADE["QUESTIONS"]] == list(range(1, 23))


@pytest.mark.parametrize("question", MADE["QUESTIONS"], ids=lambda each: str(each.number))
def test_every_question_is_answered_by_the_output_of_its_commands(question: object) -> None:
    section = MADE["section_in"](PAGE, question)
    assert question.look in section  # type: ignore[attr-defined]
    printed = section
    assert all(f"$ {line}\n" in section for line in question.brings)  # type: ignore[attr-defined]
    for command in question.commands:  # type: ignore[attr-defined]
        assert f"$ schedbench {command}\n" in section
        printed = printed.replace(f"$ schedbench {command}\n", "")
    assert len(printed.splitlines()) > 6


def test_every_file_that_a_command_reads_is_made_by_the_page_or_is_part_of_the_repository() -> None:
    typed = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
    assert typed[0] == MADE["BEGIN"]
    made: set[str] = set()
    for line in typed:
        words = shlex.split(line)
        if words[0] == "cp":
            assert (DOCS.parent / "build" / "questions" / words[1]).resolve().is_file()
            made.add(Path(words[1]).stem)
        read = {word for word in words if re.search(r"\.(parquet|csv)$|^runs/", word)}
        policies = re.findall(r"(?<=[ ,])(\w+):[A-Z]", line)
        written = {after for word, after in itertools.pairwise(words) if word in WRITES}
        assert read | set(policies) <= made | written, line
        made |= written


def test_every_command_of_the_page_is_one_of_the_program() -> None:
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    typed = re.findall(r"^\$ schedbench (.+)$", PAGE, re.MULTILINE)
    assert {shlex.split(line)[0] for line in typed} <= known


def test_what_the_public_traces_say_is_dated_and_has_commands_and_no_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))  # it stands on make_questions.py
    made = runpy.run_path(str(DOCS / "make_public_answers.py"))
    page = (DOCS / "public-traces.md").read_text(encoding="utf-8")
    assert re.search(
        r"^Made by `make acceptance TRACES=DIR` on 20\d\d-\d\d-\d\d", page, re.MULTILINE
    )
    typed = [
        shlex.split(line)[0] for line in re.findall(r"^\$ schedbench (.+)$", page, re.MULTILINE)
    ]
    assert set(typed) <= set(get_command(app).commands)  # type: ignore[attr-defined]
    numbers = [int(each) for each in re.findall(r"^## (\d+)\. ", page, re.MULTILINE)]
    assert numbers == [each.number for each in made["ANSWERS"]]
    for question in made["ANSWERS"]:
        section = made["section_in"](page, question)
        assert question.look in section
        assert all(f"$ {line}\n" in section for line in question.brings)
        assert all(f"$ schedbench {command}\n" in section for command in question.commands)
    assert "asked for" not in page  # how `explain` begins to describe a request of the trace
