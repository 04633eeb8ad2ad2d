"""A page about runs, in a real browser: drawn, zoomed, clicked, used by keyboard, printed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import colours, drag, ink
from report_runs import crowded_run

from schedbench.results.report.run_page import run_page
from schedbench.results.report.subject import Subject
from schedbench.results.stored_run import StoredRun

BLUE = "0 114 178"  # of Okabe and Ito


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    root = tmp_path_factory.mktemp("runs")
    return [crowded_run(root / "narrow"), crowded_run(root / "wide", num_gpu_blocks=800)]


@pytest.fixture(scope="module")
def single(runs: list[StoredRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "one.html"
    path.write_text(run_page([Subject(runs[0], ("a warning",))]).html)
    return path


def test_every_chart_is_drawn(opened: Callable[..., Any], single: Path) -> None:
    page = opened(single).page
    assert len(page.query_selector_all("[data-panel] canvas")) == 7
    assert min(ink(page, "[data-panel]")) > 500
    assert len(page.query_selector_all("[data-curve] canvas")) == 4
    assert min(ink(page, "[data-curve]")) > 500
    assert BLUE in colours(page, "[data-panel=batch]")


def test_a_drag_zooms_all_charts_and_a_double_click_zooms_out(
    opened: Callable[..., Any], single: Path
) -> None:
    page = opened(single).page
    whole = page.inner_text("#window")
    drag(page, "[data-panel=kv]", 0.40, 0.50)
    near = page.inner_text("#window")
    assert near != whole
    assert "every one of" in page.inner_text("#detail")
    page.locator("[data-panel=running] .u-over").dblclick()
    assert page.inner_text("#window") == whole


def test_the_zoom_of_a_drag_is_what_was_dragged_over(
    opened: Callable[..., Any], single: Path
) -> None:
    page = opened(single).page
    drag(page, "[data-panel=batch]", 0.25, 0.75)
    first, last = (_seconds(text) for text in page.inner_text("#window").split(" to "))
    page.click("[data-zoom=whole]")
    begin, end = (_seconds(text) for text in page.inner_text("#window").split(" to "))
    assert (last - first) / (end - begin) == pytest.approx(0.5, abs=0.01)


def _seconds(text: str) -> float:
    minutes = re.search(r"(\d+)m", text)
    seconds = re.search(r"([\d.]+) ?s", text)
    return 60 * int(minutes[1] if minutes else 0) + float(seconds[1] if seconds else 0)


def test_a_click_on_a_mark_opens_the_row_of_its_pass(
    opened: Callable[..., Any], single: Path, runs: list[StoredRun]
) -> None:
    page = opened(single).page
    page.locator("[data-panel=preempted] button").first.click()
    shown = dict(
        zip(
            page.locator("#row-body dt").all_inner_texts(),
            page.locator("#row-body dd").all_inner_texts(),
            strict=True,
        )
    )
    row = runs[0].passes().slice(int(shown["pass"].replace(",", "")), 1).to_pylist()[0]
    assert row["preempted"] > 0
    for name in ("tokens_scheduled", "preempted", "kv_blocks_used", "budget_stranded"):
        assert shown[name] == f"{row[name]:,}"
    assert shown["admission_stop"] == row["admission_stop"]
    assert f"row {row['victims'][0]}" in page.inner_text("#row-body")


def test_a_click_on_a_chart_opens_the_pass_there(opened: Callable[..., Any], single: Path) -> None:
    page = opened(single).page
    box = page.locator("[data-panel=running] .u-over")
    box.click(position={"x": 5, "y": 20})
    page.wait_for_selector("#row:visible")
    assert page.inner_text("#row-title").startswith("Pass ")
    page.keyboard.press("Escape")
    assert page.locator("#row").is_hidden()


def test_marks_and_passes_are_walked_from_one_to_the_next(
    opened: Callable[..., Any], single: Path
) -> None:
    page = opened(single).page
    page.locator("[data-panel=preempted] button").first.click()
    first = page.inner_text("#row-title")
    page.click("[data-row=mark-after]")
    assert page.inner_text("#row-title") != first
    page.click("[data-row=mark-before]")
    assert page.inner_text("#row-title") == first
    page.click("[data-row=zoom]")
    assert "every one of" in page.inner_text("#detail")


def test_everything_is_reached_by_keyboard(opened: Callable[..., Any], single: Path) -> None:
    page = opened(single).page
    page.locator("[data-panel=batch]").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    whole = page.inner_text("#window")
    for key in ("+", "+", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.inner_text("#window") != whole
    assert "decode" in page.inner_text("#status")
    page.keyboard.press("Enter")
    assert page.locator("#row").is_visible()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.panel") == "batch"
    page.keyboard.press("0")
    assert page.inner_text("#window") == whole


def test_a_lane_of_marks_is_one_stop_and_arrows_go_through_it(
    opened: Callable[..., Any], single: Path
) -> None:
    page = opened(single).page
    stops = page.locator("[data-panel=preempted] button[tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    label = stops.get_attribute("aria-label")
    assert re.search(r"\d requests evicted in \d+ pass", label)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") != label


def test_charts_and_buttons_have_names(opened: Callable[..., Any], single: Path) -> None:
    page = opened(single).page
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, [tabindex='0'], select")]
            .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim()))
            .map((each) => each.outerHTML)"""
    )
    assert unnamed == []


def test_dark_is_followed_and_can_be_chosen(opened: Callable[..., Any], single: Path) -> None:
    page = opened(single).page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert dark != light
    assert BLUE not in colours(page, "[data-panel=batch]")
    page.click("#theme")
    assert page.evaluate(ground) == light
    assert BLUE in colours(page, "[data-panel=batch]")
    page.click("#theme")
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == dark


def test_it_prints_in_light_without_its_buttons(opened: Callable[..., Any], single: Path) -> None:
    page = opened(single).page
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert BLUE in colours(page, "[data-panel=batch]")
    assert page.locator("[data-zoom=in]").is_hidden()
    assert page.pdf(print_background=True).startswith(b"%PDF")


def test_runs_side_by_side_share_their_scales_and_their_zoom(
    opened: Callable[..., Any], runs: list[StoredRun], tmp_path: Path
) -> None:
    path = tmp_path / "two.html"
    path.write_text(run_page([Subject(run) for run in runs]).html)
    page = opened(path).page
    assert len(page.query_selector_all("[data-panel=kv] canvas")) == 2
    ticks = page.evaluate(
        """() => ["A", "B"].map((run) => document.querySelector(
            `[data-panel=kv][data-run=${run}] .legend`).textContent)"""
    )
    assert ticks[0] != ticks[1]
    drag(page, "[data-panel=batch][data-run=B]", 0.2, 0.4)
    page.locator("[data-panel=preempted][data-run=A] button").first.click()
    assert page.inner_text("#row-title").startswith("Run A, pass ")


@pytest.mark.parametrize("width", [900, 1100, 1280])
def test_no_column_of_the_comparison_is_cut_off(
    opened: Callable[..., Any], runs: list[StoredRun], tmp_path: Path, width: int
) -> None:
    path = tmp_path / "two.html"
    path.write_text(run_page([Subject(run, ("a long warning " * 20,)) for run in runs]).html)
    page = opened(path).page
    page.set_viewport_size({"width": width, "height": 800})
    hidden = page.evaluate(
        "[...document.querySelectorAll('#summary .scroll')].map(b => b.scrollWidth - b.clientWidth)"
    )
    assert hidden
    assert max(hidden) <= 0


def test_a_thinned_run_shows_its_peaks_and_more_passes_on_zooming_in(
    opened: Callable[..., Any],
    runs: list[StoredRun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("schedbench.results.report.thin.COARSEST", 60)
    monkeypatch.setattr("schedbench.results.report.run_charts.MOST_PASSES", 2_000)
    path = tmp_path / "thin.html"
    path.write_text(run_page([Subject(runs[0])]).html)
    page = opened(path).page
    assert "peaks kept" in page.inner_text("#detail")
    most = runs[0].summary["queues"]["running_max"]
    assert f"max {most}" in page.inner_text("[data-panel=running] .legend")


def test_whatever_a_trace_says_is_shown_as_text(
    opened: Callable[..., Any], runs: list[StoredRun], tmp_path: Path
) -> None:
    hostile = "<img src=x onerror=\"document.title='caught'\">"
    manifest = runs[0].manifest | {"command_line": [hostile]}
    run = StoredRun(runs[0].path, manifest, runs[0].summary)
    path = tmp_path / "hostile.html"
    html = run_page([Subject(run, (hostile,), {"token_budget": hostile})]).html
    path.write_text(html.replace('"ids":{', f'"ids":{{"0":"{_json(hostile)}",', 1))
    page = opened(path).page
    assert page.locator("img").count() == 0
    assert page.title() != "caught"
    assert hostile in page.inner_text("#summary")


def _json(text: str) -> str:
    return text.replace('"', '\\"').replace("<", "\\u003c").replace(">", "\\u003e")
