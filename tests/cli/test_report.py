"""`schedbench report`: files are written whole, never over others, and refusals say what to do."""

import json
from pathlib import Path

import pytest
from cli_runs import Cli

TIGHT = ("--limit", 60, "--speedup", 4, "--num-gpu-blocks", 420)


@pytest.fixture
def run(cli: Cli) -> Path:
    assert cli("replay", *TIGHT, "--out", "runs/one").code == 0
    return Path("runs/one")


def test_a_page_is_written_and_its_name_is_the_result(cli: Cli, run: Path) -> None:
    ran = cli("report", run, "-o", "page.html")
    assert (ran.code, ran.out) == (0, "page.html\n")
    assert "every pass of" in ran.err
    html = Path("page.html").read_text()
    assert html.startswith("<!doctype html>")
    assert "max_num_batched_tokens" in html  # with the formula of the token budget
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_without_a_run_it_is_about_the_newest(cli: Cli, run: Path) -> None:
    ran = cli("report")
    assert (ran.code, ran.out) == (0, "report.html\n")
    assert f"this is the newest, {run}" in ran.err


def test_a_file_that_is_there_is_kept_unless_it_is_forced(cli: Cli, run: Path) -> None:
    Path("report.html").write_text("mine")
    ran = cli("report", run)
    assert ran.code == 4
    assert "report.html is there already; give --force" in ran.err
    assert Path("report.html").read_text() == "mine"
    assert cli("report", run, "--force").code == 0
    assert Path("report.html").read_text() != "mine"


def test_a_timeline_alone_makes_no_page(cli: Cli, run: Path) -> None:
    ran = cli("report", run, "--perfetto", "out.json")
    assert (ran.code, ran.out) == (0, "out.json\n")
    assert json.loads(Path("out.json").read_bytes())["displayTimeUnit"] == "ns"
    assert not Path("report.html").exists()


def test_both_are_written_when_both_are_named(cli: Cli, run: Path) -> None:
    ran = cli("report", run, run, "-o", "page.html", "--perfetto", "out.json")
    assert ran.out == "page.html\nout.json\n"


def test_a_window_is_typed_with_units(cli: Cli, run: Path) -> None:
    assert cli("report", run, "--from", "1s", "--to", "2s").code == 0
    ran = cli("report", run, "--from", "1", "-o", "b.html")
    assert ran.code == 2
    assert "--from: '1' is no duration" in ran.err


def test_a_sweep_gets_a_page_of_its_own(cli: Cli, run: Path) -> None:
    swept = cli("sweep", *TIGHT, "--max-num-seqs", "4,8", "--out", "runs/grid", "--jobs", 1)
    assert swept.code == 0
    ran = cli("report", "runs/grid", "-o", "grid.html")
    assert (ran.code, ran.out) == (0, "grid.html\n")
    assert "2 of 2 points finished" in ran.err
    assert "max-num-seqs" in Path("grid.html").read_text()
    beside = cli("report", "runs/grid", run, "-o", "b.html")
    assert (beside.code, Path("b.html").exists()) == (2, False)
    assert "name its folder alone" in beside.err
    timeline = cli("report", "runs/grid", "--perfetto", "t.json")
    assert timeline.code == 2
    assert "is a sweep" in timeline.err


def test_a_stalled_run_is_shown_with_its_reason(cli: Cli) -> None:
    blocks = ("--num-gpu-blocks", 60, "--too-long", "truncate")
    assert cli("replay", "--limit", 60, *blocks, "--out", "runs/s").code == 3
    ran = cli("report", "runs/s")
    assert ran.code == 0
    assert "the replay stalled" in Path("report.html").read_text()


def test_what_is_no_run_is_refused_by_name(cli: Cli) -> None:
    Path("empty").mkdir()
    ran = cli("report", "empty")
    assert ran.code == 2
    assert "empty is not a run" in ran.err


def test_what_is_asked_about_is_looked_for_before_the_page_that_is_there(
    cli: Cli, run: Path
) -> None:
    Path("report.html").write_text("an earlier page")
    assert "nope is not a run: there is no such folder" in cli("report", "nope").err
    assert "report.html is there already" in cli("report", run).err
    assert Path("report.html").read_text() == "an earlier page"


def test_a_folder_that_cannot_be_written_to_is_named(cli: Cli, run: Path) -> None:
    ran = cli("report", run, "-o", "missing/page.html")
    assert ran.code == 4
    assert "missing/page.html cannot be written" in ran.err
