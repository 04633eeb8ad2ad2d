"""A page about runs: complete, closed to the network, and proof against what a trace says."""

import base64
import hashlib
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest

from schedbench.errors import UsageError
from schedbench.results.metrics import summarize
from schedbench.results.pass_log import PASS_COLUMNS
from schedbench.results.report import run_charts, thin
from schedbench.results.report.pass_points import NOT_SHOWN
from schedbench.results.report.run_page import held_text, run_page
from schedbench.results.report.subject import Subject, Window
from schedbench.results.stored_run import StoredRun
from schedbench.results.visible import visible

HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(1)>"'`&\u2028{{7*7}}"""


class Reader(HTMLParser):
    """Which tags a page has, and what they link to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [(tag, v or "") for k, v in attrs if k in ("src", "href", "srcset", "action")]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def data_of(html: str) -> Any:  # noqa: ANN401 - JSON
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    return orjson.loads(found[1])


def test_nothing_is_loaded_from_anywhere(page_html: str) -> None:
    links = read(page_html).links
    assert {target for tag, target in links if tag != "a"} == {"data:,"}
    assert "@import" not in page_html
    assert "url(" not in page_html


def test_only_the_script_of_the_page_may_run(page_html: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", page_html, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page_html)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert f"script-src 'sha256-{digest}'" in policy[1]


def test_every_column_of_the_pass_log_is_in_a_group_of_the_row() -> None:
    grouped = [name for names in run_charts.ROW_GROUPS.values() for name in names]
    assert sorted(grouped) == sorted({column.name for column in PASS_COLUMNS} - {*NOT_SHOWN})


def hostile_run(made_up: Callable[..., Any], folder: Path) -> StoredRun:
    """A run whose ids, groups, flags and paths all try to be markup."""
    run = made_up(3)
    for request in run.requests:
        request |= {"request_id": f"{HOSTILE}{request['row']}", "group": HOSTILE}
    manifest = {
        "trace": {"path": f"/traces/{HOSTILE}.csv", "digest": "sha256:0"},
        "scheduler": {HOSTILE: HOSTILE},
        "derived": {HOSTILE: 1},
        "command_line": ["schedbench", HOSTILE],
        "time": {"description": HOSTILE},
        "stalled": HOSTILE,
    }
    in_memory = run.in_memory()
    summary = summarize(in_memory.passes.table(), in_memory.requests.table(), in_memory.itl.table())
    return StoredRun.open(run.stored(folder / "<b>&'run", manifest, summary))


def test_whatever_a_trace_says_stays_text(made_up: Callable[..., Any], tmp_path: Path) -> None:
    run = hostile_run(made_up, tmp_path)
    subject = Subject(run, (HOSTILE,), {HOSTILE: HOSTILE})
    for subjects in ([subject], [subject, subject]):
        html = run_page(subjects).html
        tags = read(html).tags
        assert tags.count("script") == 2
        assert not {"img", "b", "iframe"} & set(tags)
        assert "alert(1)" in html
        assert "49" not in re.findall(r"<h1>(.*?)</h1>", html)[0]
        ids = data_of(html)["runs"][0]["ids"]
        assert any(visible(HOSTILE) in label for label in ids.values())


def test_victims_are_named_by_row_and_label(crowded: StoredRun, page_html: str) -> None:
    run = data_of(page_html)["runs"][0]
    rows = {row for rows in run["victims"] for row in rows}
    labels = {each["row"]: each["request_id"] for each in crowded.requests().to_pylist()}
    assert run["ids"] == {str(row): labels[row] for row in rows}


def test_a_page_of_many_passes_keeps_to_its_size(
    crowded: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thin, "COARSEST", 60)
    monkeypatch.setattr(run_charts, "MOST_BYTES", 25_000)
    page = run_page([Subject(crowded)])
    assert page.passes_held < page.passes == crowded.summary["passes"]
    run = data_of(page.html)["runs"][0]
    assert len(orjson.dumps([run["points"], run["slices"], run["victims"]])) <= 25_000
    assert held_text(page).endswith("peaks kept")
    assert "make a report with --from and --to" in page.html


def test_a_window_shows_the_passes_that_start_in_it(crowded: StoredRun) -> None:
    starts = crowded.passes()["start_ns"].to_pylist()
    window = Window(starts[100], starts[300])
    page = run_page([Subject(crowded)], window)
    assert page.passes == 200
    assert held_text(page) == "every pass of 200"
    assert "all else is of whole runs" in page.html


def test_an_empty_window_is_refused(crowded: StoredRun) -> None:
    with pytest.raises(UsageError, match="no pass starts within the window"):
        run_page([Subject(crowded)], Window(10**15, None))


def test_more_runs_than_fit_side_by_side_are_refused(crowded: StoredRun) -> None:
    with pytest.raises(UsageError, match="7 runs do not fit side by side"):
        run_page([Subject(crowded)] * 7)


def test_runs_of_different_traces_are_shown_and_told_apart(
    crowded: StoredRun, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(crowded.path, tmp_path / "other"))
    manifest = orjson.loads((copied / "manifest.json").read_bytes())
    manifest["trace"]["digest"] = "sha256:other"
    (copied / "manifest.json").write_bytes(orjson.dumps(manifest))
    html = run_page([Subject(crowded), Subject(StoredRun.open(copied))]).html
    assert "these runs replay different traces" in html
    assert "who won and lost" not in html


def test_what_differs_in_the_configuration_is_said_in_words(
    crowded: StoredRun, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(crowded.path, tmp_path / "other"))
    manifest = orjson.loads((copied / "manifest.json").read_bytes())
    manifest["scheduler"]["max_num_seqs"] = 77
    (copied / "manifest.json").write_bytes(orjson.dumps(manifest))
    html = run_page([Subject(crowded), Subject(StoredRun.open(copied))]).html
    assert html.count(">differs<") == 1


def test_the_missing_package_is_named_with_its_remedy(
    crowded: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"pip install '.\[report\]'"):
        run_page([Subject(crowded)])
