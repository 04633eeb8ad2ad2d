"""In a pipe there is no colour and no cut column; on a terminal no number is cut either."""

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from schedbench.results.metrics import summarize
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.summary_sheets import run_view
from schedbench.results.tables import plain_text, show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def view(made_up: Callable[..., Any]) -> View:
    run = made_up(3).in_memory()
    tables = run.passes.table(), run.requests.table(), run.itl.table()
    summary = summarize(*tables, slo={"ttft": 10**9})
    return run_view("made up", summary, warnings=["look out"], assumed={"--block-size": "16"})


def on_terminal(view: View, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    file = Terminal()
    show(view, file)
    return file.getvalue()


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"[\d,.]*\d", re.sub(r"\x1b\[[\d;]*m", "", text)))


def test_a_pipe_gets_the_same_text_whatever_the_terminal(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = set()
    for width in (20, 80, 300):
        monkeypatch.setenv("COLUMNS", str(width))
        file = io.StringIO()
        show(view, file)
        texts.add(file.getvalue())
    (text,) = texts
    assert "\x1b" not in text
    assert "…" not in text
    assert not re.search(r" $", text, re.MULTILINE)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_number_is_cut_on_a_narrow_terminal(
    view: View, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = on_terminal(view, width, monkeypatch)
    assert numbers_in(plain_text(view)) == numbers_in(text)


def test_colour_is_left_out_where_no_color_is_set(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    colour = re.compile(r"\x1b\[[\d;]*3\d|\x1b\[[\d;]*9\d")
    assert colour.search(on_terminal(view, 100, monkeypatch))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(on_terminal(view, 100, monkeypatch))


def test_every_row_of_percentiles_shows_how_many_it_is_over(view: View) -> None:
    titles = [heading.title for heading in view.sheets[0].headings]
    assert titles[:4] == ["latency", "n", "unfin.", "abort."]
    summary = view.data
    for row, key in zip(view.sheets[0].rows, ("ttft_ns", "queue_ns", "tpot_ns"), strict=False):
        assert row[1].text == str(summary[key]["n"])
        assert row[2].text == str(summary["requests_unfinished"])


def test_the_best_value_is_starred_and_numbers_stay_aligned() -> None:
    rows = ((Cell("10", mark=Mark.BEST),), (Cell("200"),))
    sheet = Sheet("", (Heading("TTFT"),), rows)
    assert plain_text(View("", (sheet,), sheet, {})).splitlines()[-2:] == ["* 10", " 200"]


COMMAND = (
    "schedbench explain runs/20260731T141503Z-a-long-name-sweep/points/max_num_seqs=16-585cb3a8"
)


@pytest.mark.parametrize("width", [30, 80, 200])
def test_titles_commands_and_paths_are_never_broken(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    path, words = (
        COMMAND.rsplit(maxsplit=1)[-1],
        "some words that stand before it in a sentence of some length",
    )
    told = facts([("a name", f"{words}: {path}"), ("next", f"{words} `{COMMAND}`")], COMMAND)
    note = f"{words} `{COMMAND}` and after it\n{words}: {COMMAND}"
    table = Sheet(f"a title: {COMMAND}", (Heading("A"),), ((Cell("1"),),), note)
    view = View(f"{words} {path}", (told, table), table, {}, (f"{words}; see {COMMAND}",))
    for text in (on_terminal(view, width, monkeypatch), plain_text(view)):
        shown = re.sub(r"\x1b\[[\d;]*m", "", text)
        assert shown.count(COMMAND) == 6
        assert shown.count(path) == 8
        others = [line for line in shown.splitlines() if path not in line]
        assert text == plain_text(view) or max(map(len, others)) <= width
