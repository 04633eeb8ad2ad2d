"""A page about a sweep has every point, also those without a run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from schedbench.errors import RunStoreError
from schedbench.results.metrics import summarize
from schedbench.results.pass_log import SCHEMA_VERSION
from schedbench.results.report.sweep_folder import is_sweep, open_sweep
from schedbench.results.report.sweep_page import sweep_page

HOSTILE = "</script><img src=x onerror=alert(1)>"
AXES = {"max_num_seqs": [64, 128], "enable_chunked_prefill": [True, False]}


@pytest.fixture
def sweep_folder(made_up: Callable[..., Any], tmp_path: Path) -> Path:
    """Of four points two finished, one stalled and one was refused."""
    about = {"trace": {"path": f"{HOSTILE}.csv", "digest": ""}, "axes": AXES, "command_line": []}
    (tmp_path / "points").mkdir()
    (tmp_path / "sweep.json").write_bytes(orjson.dumps(about))
    for seed, (seats, chunked) in enumerate([(64, True), (64, False), (128, True)]):
        run = made_up(seed)
        tables = run.in_memory()
        summary = summarize(
            *(each.table() for each in (tables.passes, tables.requests, tables.itl))
        )
        flags = {"max_num_seqs": seats, "enable_chunked_prefill": chunked, "policy": HOSTILE}
        manifest = {"trace": about["trace"], "scheduler": flags}
        path = run.stored(tmp_path / "points" / f"{seed}", manifest, summary)
        if seed == 1:
            stalled = {
                "schema_version": SCHEMA_VERSION,
                "complete": False,
                **manifest,
                "stalled": HOSTILE,
            }
            (path / "manifest.json").write_bytes(orjson.dumps(stalled))
    return tmp_path


def test_the_points_stand_in_the_order_of_the_grid(sweep_folder: Path) -> None:
    sweep = open_sweep(sweep_folder)
    assert [tuple(point.flags.values()) for point in sweep.points] == [
        (64, True),
        (64, False),
        (128, True),
        (128, False),
    ]
    assert [point.summary is not None for point in sweep.points] == [True, False, True, False]
    assert [point.failure for point in sweep.points][1] == HOSTILE
    assert sweep.points[3].failure.startswith("no run")
    assert sweep.flags == {"policy": HOSTILE}


def test_what_each_point_derives_anew_is_never_listed_as_one_value(sweep_folder: Path) -> None:
    for place, blocks in enumerate((29476, 29176, 29012)):
        path = sweep_folder / "points" / str(place) / "manifest.json"
        manifest = orjson.loads(path.read_bytes())
        manifest["scheduler"] |= {"num_gpu_blocks": blocks, "max_loras": [None, 4, None][place]}
        path.write_bytes(orjson.dumps(manifest))
    sweep = open_sweep(sweep_folder)
    assert sweep.flags == {"policy": HOSTILE}
    html = sweep_page(sweep)
    assert "(anew at each point: 29012 to 29476)" in html
    assert "(anew at each point: - to 4)" in html


def test_its_page_has_every_point_and_no_foreign_markup(sweep_folder: Path) -> None:
    html = sweep_page(open_sweep(sweep_folder))
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    data = orjson.loads(found[1])
    assert [point["flags"] for point in data["points"]] == [
        ["64", "on"],
        ["64", "off"],
        ["128", "on"],
        ["128", "off"],
    ]
    assert [bool(point["failure"]) for point in data["points"]] == [False, True, False, True]
    assert "<img" not in html


def test_a_folder_without_a_grid_is_refused(tmp_path: Path) -> None:
    assert not is_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text("[1")
    with pytest.raises(RunStoreError, match="cannot be read"):
        open_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text('{"axes": [], "trace": {}}')
    with pytest.raises(RunStoreError, match="names no axes"):
        open_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text('{"axes": {"max_num_seqs": [1]}, "trace": {}}')
    with pytest.raises(RunStoreError, match="holds no run yet"):
        open_sweep(tmp_path)
