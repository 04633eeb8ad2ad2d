"""`--plot` draws lines that fit, in one scale for all runs, and nothing where a program reads."""

from pathlib import Path

import pyarrow as pa
import pytest
from cli_runs import Cli

from schedbench.cli.plots import COLUMNS, plot_lines
from schedbench.results.stored_run import StoredRun

TIGHT = ("--limit", 60, "--speedup", 4, "--num-gpu-blocks", 420)
BLOCKS = "▁▂▃▄▅▆▇█"


@pytest.fixture
def passes(cli: Cli) -> pa.Table:
    assert cli("replay", *TIGHT, "--out", "runs/one").code == 0
    return StoredRun.open("runs/one").passes(COLUMNS)


def drawn(lines: list[str]) -> dict[str, str]:
    """Rows by label: what was drawn, and the value at the end."""
    return {line[:14].strip(): line[14:] for line in lines if line.startswith("  ")}


@pytest.mark.parametrize("width", [50, 80, 200])
def test_lines_are_as_wide_as_the_terminal(passes: pa.Table, width: int) -> None:
    rows = [line for line in plot_lines([("", passes)], width) if line.startswith("  ")]
    assert {len(line) for line in rows} == {width}


def test_the_values_at_the_end_are_those_of_the_summary(passes: pa.Table) -> None:
    summary = StoredRun.open("runs/one").summary
    rows = drawn(plot_lines([("", passes)], 100))
    assert int(rows["running"].split()[-1]) == summary["queues"]["running_max"]
    pool = summary["kv"]["blocks"]
    assert int(rows["used"].split()[-1].replace(",", "")) == round(
        summary["kv"]["used_share_max"] * pool
    )
    assert {"prefill", "decode", "waiting", "preempted"} <= set(rows)
    assert "drafts" not in rows


def test_runs_of_a_comparison_have_one_scale(passes: pa.Table) -> None:
    half = passes.slice(0, passes.num_rows // 2)
    rows = drawn(plot_lines([("A", passes), ("B", half)], 100))
    assert set(rows["waiting A"]) & set(BLOCKS)
    assert "█" in rows["running A"] + rows["running B"]
    assert rows["decode B"][60:80].strip() == ""  # it had ended by then


def test_a_run_without_passes_says_so(passes: pa.Table) -> None:
    assert plot_lines([("", passes.slice(0, 0))], 80) == ["no pass to plot"]


def test_replay_and_compare_draw_below_their_tables(cli: Cli) -> None:
    replayed = cli("replay", *TIGHT, "--out", "runs/one", "--plot")
    assert replayed.code == 0
    assert "tokens a pass, mean" in replayed.out
    assert "\x1b" not in replayed.out
    compared = cli("compare", "runs/one", "runs/one", "--plot")
    assert "running B" in compared.out
    assert Path("runs/one").is_dir()


def test_a_plot_is_refused_where_a_program_reads(cli: Cli) -> None:
    for words in (("replay", *TIGHT), ("compare", "a", "b")):
        ran = cli(*words, "--plot", "--json")
        assert (ran.code, ran.out) == (2, "")
        assert "--plot draws below the table" in ran.err
