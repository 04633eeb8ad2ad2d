"""A page about a sweep, in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from browsing import ink
from report_runs import crowded_run

from schedbench.results.report.sweep_folder import open_sweep
from schedbench.results.report.sweep_page import sweep_page

AXES = {"num_gpu_blocks": [420, 800], "max_num_seqs": [8, 64], "policy": ["fcfs", "priority"]}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven of eight points of a grid over three flags."""
    root = tmp_path_factory.mktemp("sweep")
    about = {"trace": {"path": "sample", "digest": ""}, "axes": AXES}
    (root / "sweep.json").write_bytes(orjson.dumps(about))
    grid = [
        (b, s, p)
        for b in AXES["num_gpu_blocks"]
        for s in AXES["max_num_seqs"]
        for p in AXES["policy"]
    ]
    for place, (blocks, seats, policy) in enumerate(grid[:-1]):
        flags = {"num_gpu_blocks": blocks, "max_num_seqs": seats, "policy": policy}
        crowded_run(root / "points" / str(place), **flags)
    path = root / "sweep.html"
    path.write_text(sweep_page(open_sweep(root)))
    return path


def test_the_heat_map_has_a_cell_for_every_point_of_the_plane(
    opened: Callable[..., Any], swept: Path
) -> None:
    page = opened(swept).page
    assert page.locator(".heat button").count() == 4
    page.get_by_label("policy", exact=True).select_option(label="priority")
    assert page.locator(".heat button.none").count() == 1
    page.locator(".heat button.none").click()
    assert "no run" in page.inner_text("#heat-point")


def test_a_cell_is_chosen_with_the_arrow_keys(opened: Callable[..., Any], swept: Path) -> None:
    page = opened(swept).page
    page.locator(".heat button[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    shown = page.inner_text("#heat-point")
    assert "num_gpu_blocks 800, max_num_seqs 64" in shown
    assert "schedbench report" in shown


def test_a_search_opens_on_a_point_of_its_front_and_the_arrow_keys_skip_empty_cells(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "sweep.json").write_bytes(orjson.dumps({"trace": {"path": "sample", "digest": ""}}))
    (tmp_path / "tune.json").write_bytes(orjson.dumps({"space": dict.fromkeys(AXES, "")}))
    for place, (blocks, seats) in enumerate([(420, 8), (600, 32), (800, 64)]):
        flags = {"num_gpu_blocks": blocks, "max_num_seqs": seats, "policy": "priority"}
        crowded_run(tmp_path / "points" / str(place), **flags)
    crowded_run(tmp_path / "points/9", num_gpu_blocks=400, max_num_seqs=8, policy="fcfs")
    path = tmp_path / "search.html"
    path.write_text(sweep_page(open_sweep(tmp_path)))
    page = opened(path).page
    assert page.locator(".heat button.none").count() == 0
    assert page.locator(".heat button", has_text="●").count() >= 1
    page.get_by_label("policy", exact=True).select_option(label="priority")
    assert page.locator(".heat button").count() == 3
    page.locator(".heat button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert "num_gpu_blocks 600, max_num_seqs 32" in page.inner_text("#heat-point")


def test_another_metric_colours_the_cells_anew(opened: Callable[..., Any], swept: Path) -> None:
    page = opened(swept).page
    before = page.locator(".heat button").all_inner_texts()
    page.get_by_label("Colour", exact=True).select_option(label="preemptions")
    after = page.locator(".heat button").all_inner_texts()
    assert before != after
    styles = page.eval_on_selector_all(".heat button", "all => all.map(one => one.style.cssText)")
    assert len(set(styles)) > 1


def test_the_trade_off_shows_points_and_their_front(
    opened: Callable[..., Any], swept: Path
) -> None:
    page = opened(swept).page
    assert ink(page, "#scatter")[0] > 500
    assert page.locator(".points button.front").count() >= 1
    page.locator(".points button").first.click()
    assert "held back by" in page.inner_text("#trade-point")
    page.get_by_label("Up", exact=True).select_option(label="preemptions")
    assert page.locator(".points button").count() >= 1


def test_points_lie_within_the_chart(opened: Callable[..., Any], swept: Path) -> None:
    page = opened(swept).page
    area = page.locator("#scatter .u-over").bounding_box()
    for button in page.locator(".points button").all():
        box = button.bounding_box()
        assert area["x"] - 8 <= box["x"] <= area["x"] + area["width"]
        assert area["y"] - 8 <= box["y"] <= area["y"] + area["height"]
