import csv
import io
import json
from pathlib import Path

import pytest
from cli_runs import Cli


@pytest.fixture
def runs(cli: Cli, small: Path) -> tuple[str, str]:
    for name, seats in (("few", "4"), ("many", "32")):
        ran = cli("replay", small, "--max-num-seqs", seats, "--no-async-scheduling", "--out", name)
        assert ran.code == 0
    return "few", "many"


def test_runs_stand_side_by_side_with_the_first_pass_that_differs(
    cli: Cli, runs: tuple[str, str]
) -> None:
    ran = cli("compare", *runs)
    assert ran.code == 0
    assert "max_num_seqs=4" in ran.out
    assert "TTFT p99" in ran.out
    assert "from pass" in ran.out
    assert "better" in ran.out


def test_equal_decisions_with_other_times_differ_by_time_only(cli: Cli, small: Path) -> None:
    for name, cost in (("a", "pass:10ms"), ("b", "linear:10ms,0.001ms")):
        cli("replay", small, "--cost", cost, "--arrivals", "all-at-once", "--out", name)
    found = json.loads(cli("compare", "a", "b", "--json").out)
    assert found["by_decisions"] == [None]
    assert found["by_time_only"][0]["index"] == 0


def test_equal_runs_are_called_equal(cli: Cli, small: Path) -> None:
    for name in ("a", "b"):
        cli("replay", small, "--out", name)
    assert "equal, in decisions and in time" in cli("compare", "a", "b").out


@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_every_format_names_both_runs(cli: Cli, runs: tuple[str, str], form: str) -> None:
    ran = cli("compare", *runs, "--format", form)
    assert all(name in ran.out for name in runs)


def test_requests_are_split_by_a_column_with_jains_index(cli: Cli, runs: tuple[str, str]) -> None:
    ran = cli("compare", runs[0], "--by", "client")
    assert "Jain's index" in ran.out
    rows = list(csv.DictReader(io.StringIO(cli("compare", *runs, "--by", "client",
                                               "--format", "csv").out)))  # fmt: skip
    assert [(row["run"], row["client"], row["requests_finished"]) for row in rows] == [
        ("few", "0", "20"),
        ("few", "1", "20"),
        ("many", "0", "20"),
        ("many", "1", "20"),
    ]


def test_a_split_without_a_run_takes_the_newest(cli: Cli, small: Path) -> None:
    cli("replay", small)
    assert "client" in cli("compare", "--by", "client").out


def test_runs_of_different_traces_are_compared_only_when_it_is_asked_for(
    cli: Cli, small: Path, runs: tuple[str, str]
) -> None:
    cli("replay", small, "--limit", "9", "--out", "short")
    refused = cli("compare", runs[0], "short")
    assert refused.code == 2
    assert "--across-traces" in refused.err
    assert cli("compare", runs[0], "short", "--across-traces").code == 0


OWN = """
import schedbench

class Mine(schedbench.Scheduler):
    pass

class OldestVictim(schedbench.Policy):
    def victim(self, request, state):
        return state.running[0]
"""
SIDES = {
    "a scheduler": (
        ("--scheduler", "own_of_compare:Mine"),
        "scheduler=own_of_compare:Mine",
        "every pass",
    ),
    "a policy": (
        ("--policy-class", "own_of_compare:OldestVictim"),
        "policy_class=own_of_compare:OldestVictim",
        "victims [",
    ),
    "a release": (
        ("--vllm-version", "0.33.0", "--scheduling-policy", "priority"),
        "vLLM 0.33.0",
        "decisions",
    ),
}


@pytest.mark.parametrize("side", SIDES)
def test_runs_are_compared_across_whatever_made_them(cli: Cli, small: Path, side: str) -> None:
    words, flag, told = SIDES[side]
    Path("own_of_compare.py").write_text(OWN)
    tight = (small, "--num-gpu-blocks", "80", "--max-model-len", "1024")
    assert cli("replay", *tight, "--out", "plain").code == 0
    other = cli("replay", *tight, *words, "--out", "other")
    assert other.code == 0, other.err
    ran = cli("compare", "plain", "other")
    assert ran.code == 0
    assert flag in ran.out
    assert told in ran.out


def test_modelled_times_stand_beside_recorded_ones_pass_by_pass(cli: Cli, small: Path) -> None:
    tight = (small, "--num-gpu-blocks", "80", "--max-model-len", "1024")
    cli("replay", *tight, "--arrivals", "all-at-once", "--out", "modelled")
    cli("replay", *tight, "--arrivals", "all-at-once", "--cost", "pass:7ms", "--out", "other")
    again = cli("replay", *tight, "--arrivals", "all-at-once", "--recorded", "other", "--out", "r")
    assert again.code == 0, again.err
    assert json.loads(cli("compare", "other", "r", "--json").out)["by_time_only"] == [None]
    ran = cli("compare", "modelled", "r")
    assert "decisions  the same in every pass" in ran.out
    assert "time only  from pass 0, at 0" in ran.out
    assert "duration_ns" in ran.out


@pytest.mark.parametrize("by", ["priority", "client", "lora", "group"])
def test_a_run_is_split_by_every_column_there_is(cli: Cli, small: Path, by: str) -> None:
    cli("replay", small, "--out", "r")
    (split,) = json.loads(cli("compare", "r", "--by", by, "--json").out)
    assert split["by"] == by
    assert sum(group["requests"] for group in split["groups"].values()) == 40
    assert set(split["jain"]) == {"tokens_per_request", "ttft_mean"}
