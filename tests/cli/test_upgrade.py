"""Two releases on one trace: the first pass that differs, what made it, and what that did."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Cli

from schedbench.sched.config import RELEASES
from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace

FLAGS = ("--long-prefill-token-threshold", "128", "--max-num-seqs", "8", "--num-gpu-blocks", "300",
         "--max-model-len", "2048", "--cost", "linear:8ms,0.03ms", "--jobs", "1")  # fmt: skip
ONE = tuple(word for word in FLAGS if word not in ("--jobs", "1"))


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """Long prompts, each of them alone."""
    rows = 6
    trace = Trace.from_columns(
        {
            "arrival_ns": [row * 2_000_000_000 for row in range(rows)],
            "prompt_tokens": [900] * rows,
            "output_tokens": [5] * rows,
        }
    )
    path = tmp_path / "alone.parquet"
    write_trace(trace, path)
    return path


def swept(cli: Cli, *words: object) -> list[dict[str, Any]]:
    ran = cli("sweep", *words, *FLAGS, "--vllm-version", "0.26.0,0.33.0", "--json")
    assert ran.code == 0
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def test_a_sweep_over_releases_names_pass_and_behaviour_and_the_effect(
    cli: Cli, alone: Path
) -> None:
    first, other = swept(cli, alone)
    assert (first["release"], other["release"]) == ("vLLM 0.26.0", "vLLM 0.33.0")
    assert first["upgrade"] is None
    upgrade = other["upgrade"]
    assert upgrade["by_decisions"][0]["index"] == 0
    assert upgrade["causes"][0]["alone"] == ["threshold-lone"]
    ttft = upgrade["metrics"]["ttft_ns.p50"]
    assert ttft["values"] == [
        first["summary"]["ttft_ns"]["p50"],
        other["summary"]["ttft_ns"]["p50"],
    ]
    assert ttft["verdicts"] == ["better"]


def test_the_sweep_says_it_in_words_at_every_other_point(cli: Cli, alone: Path) -> None:
    ran = cli("sweep", alone, *FLAGS, "--vllm-version", "0.26.0,0.33.0", "--block-size", "16,32")
    assert ran.code == 0
    for size in (16, 32):
        assert f"A and B: 0.26.0 and 0.33.0 at block_size={size}" in ran.out
    assert ran.out.count("threshold-lone: alone it makes A decide that pass as B does") == 2
    assert "A decides every pass as B does: the others change nothing here" in ran.out


def test_without_a_search_the_pass_is_named_and_no_cause(cli: Cli, alone: Path) -> None:
    _, other = swept(cli, alone, "--no-cause")
    assert other["upgrade"]["by_decisions"][0]["index"] == 0
    assert other["upgrade"]["causes"] == [None]


def test_stored_runs_of_two_releases_are_explained_too(cli: Cli, alone: Path) -> None:
    for name, version in (("old", "0.26.0"), ("new", "0.33.0")):
        cli("replay", alone, *ONE, "--vllm-version", version, "--out", name)
    ran = cli("compare", "old", "new", "--jobs", "1")
    assert "threshold-lone: alone it makes A decide that pass as B does" in ran.out
    assert "caused by" not in cli("compare", "old", "new", "--no-cause").out
    moved = alone.rename(alone.with_name("moved.parquet"))
    ran = cli("compare", "old", "new", "--jobs", "1")
    assert ran.code == 0
    assert "not looked for" in ran.out
    ran = cli("compare", "old", "new", "--jobs", "1", "--trace", moved)
    assert "threshold-lone: alone it makes A decide that pass as B does" in ran.out


def test_runs_that_differ_in_more_than_flags_get_no_cause_and_the_reason(
    cli: Cli, alone: Path
) -> None:
    cli("replay", alone, *ONE, "--out", "old")
    cli("replay", alone, *ONE, "--vllm-version", "0.33.0", "--speedup", "2", "--out", "new")
    ran = cli("compare", "old", "new", "--jobs", "1")
    assert "not looked for: the runs differ in more than flags of the scheduler" in ran.out


def upgraded(cli: Cli, *words: object) -> list[dict[str, Any]]:
    ran = cli("upgrade", *words, *FLAGS, "--json")
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def test_an_upgrade_names_the_release_that_changes_a_pass_and_has_the_numbers_of_each(
    cli: Cli, alone: Path
) -> None:
    rows = upgraded(cli, alone, "--from", "0.29.0", "--to", "0.32.0")
    assert [row["release"] for row in rows] == ["0.29.0", "0.30.0", "0.31.0", "0.32.0"]
    assert [row["release"] for row in rows if row["parting"]] == ["0.31.0"]
    assert rows[2]["before"] == "0.30.0"
    assert rows[2]["cause"]["alone"] == ["threshold-lone"]
    assert rows[2]["flags_back"] == {}
    for row in rows[1:3]:
        ran = cli("replay", alone, *ONE, "--vllm-version", row["release"], "--no-store", "--json")
        assert row["summary"].items() <= json.loads(ran.out).items()


def test_an_upgrade_in_words_says_pass_behaviour_effect_and_that_no_flag_undoes_it(
    cli: Cli, alone: Path
) -> None:
    ran = cli("upgrade", alone, *FLAGS, "--from", "0.30.0", "--to", "0.31.0")
    assert ran.code == 0
    assert "the first step that changes a pass; A and B: 0.30.0 and 0.31.0" in ran.out
    assert "threshold-lone: alone it makes A decide that pass as B does" in ran.out
    assert "none: no flag undoes threshold-lone" in ran.out
    assert "what the whole upgrade changes" in ran.out
    without = cli("upgrade", alone, *FLAGS, "--from", "0.30.0", "--to", "0.31.0", "--no-cause")
    assert "caused by" not in without.out


def test_a_release_with_the_behaviours_of_an_earlier_one_is_not_replayed_again(
    cli: Cli, alone: Path
) -> None:
    rows = upgraded(cli, alone, "--from", "0.27.0", "--to", "0.28.0")
    assert [row["same_as"] for row in rows] == [None, "0.27.0", None]
    assert rows[0]["summary"] == rows[1]["summary"]


def test_a_release_that_refuses_a_flag_is_stepped_over_with_its_reason(
    cli: Cli, alone: Path
) -> None:
    words = ("--max-num-active-seqs", "4", "--from", "0.29.0", "--to", "0.32.0")
    rows = upgraded(cli, alone, *words)
    assert [row["summary"] is None for row in rows] == [True, True, False, False]
    assert "vLLM 0.30.0 has no such flag" in rows[1]["failure"]
    assert rows[3]["before"] == "0.31.0"
    ran = cli("upgrade", alone, *FLAGS, *words[:2], "--from", "0.26.0", "--to", "0.27.0")
    assert ran.code == 2
    assert "--max-num-active-seqs is 4: vLLM 0.27.0 has no such flag" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "0.33.0", "--to", "0.26.0"), "--from 0.33.0 --to 0.26.0 goes through no"),
        (("--from", "0.30.0", "--to", "0.30.0"), "goes through no release"),
        (("--from", "0.25.0"), "--from 0.25.0 is not modelled"),
        (("--to", "0.33"), "--to 0.33 is not modelled"),
        (("--vllm-version", "0.30.0"), "leave out --vllm-version and --behaviour"),
        (("--behaviour", "zero-skip=on"), "leave out --vllm-version and --behaviour"),
    ],
)
def test_an_upgrade_that_is_none_is_refused_with_a_way_out(
    cli: Cli, alone: Path, words: tuple[str, ...], said: str
) -> None:
    ran = cli("upgrade", alone, *words)
    assert ran.code == 2
    assert said in ran.err


def test_a_sweep_over_all_releases_has_a_point_for_each(cli: Cli, alone: Path) -> None:
    ran = cli("sweep", alone, *FLAGS, "--vllm-version", "all", "--no-store", "--json")
    assert [row["flags"]["vllm-version"] for row in json.loads(ran.out)] == list(RELEASES)
