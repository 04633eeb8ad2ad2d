"""Which release is followed, who says so, and that every summary names it."""

import json
from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.cli import release
from schedbench.sched.config import RELEASES

NEW = ("--vllm-version", "0.33.0")
MIXTURE = ("--behaviour", "threshold-lone=on")
MIXED = "vLLM 0.26.0 with threshold-lone=on (a mixture, no release)"


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "installed", lambda: None)


def test_the_environment_sets_the_release_and_an_option_wins(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(release.VARIABLE, "0.33.0")
    ran = cli("replay", small, "--no-store")
    assert "vLLM 0.33.0, asynchronous" in ran.out
    assert "vLLM 0.33.0 is followed, as SCHEDBENCH_VLLM_VERSION says" in ran.err
    ran = cli("replay", small, "--no-store", "--vllm-version", "0.26.0")
    assert "vLLM 0.26.0, asynchronous" in ran.out
    assert "is followed" not in ran.err


def test_the_nearest_pyproject_sets_the_release_and_the_environment_wins(
    cli: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.schedbench]\nvllm-version = "0.33.0"\n')
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    ran = cli("replay", small, "--no-store")
    assert "vLLM 0.33.0, asynchronous" in ran.out
    assert "pyproject.toml, [tool.schedbench] says" in ran.err
    monkeypatch.setenv(release.VARIABLE, "0.26.0")
    assert "vLLM 0.26.0, asynchronous" in cli("replay", small, "--no-store").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tool.schedbench]\nrelease = "0.33.0"\n', "and nothing else"),
        ("[tool.schedbench]\nvllm-version = 0.33\n", "write it in quotes"),
        ('[tool.schedbench]\nvllm-version = "0.29.9"\n', "not rounded to a neighbour"),
        ("[tool", "cannot be read"),
        ("tool = 3", "tool is 3, where tables of tools stand"),
        ("tool.schedbench = 3", "and nothing else"),
    ],
)
def test_a_pyproject_that_says_nothing_useful_is_refused_by_name(
    cli: Cli, small: Path, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    ran = cli("replay", small, "--no-store")
    assert ran.code == 2
    assert "pyproject.toml" in ran.err
    assert said in ran.err


def test_a_release_between_the_known_ones_is_refused_with_the_reason(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cli("replay", small, "--vllm-version", "0.29.9")
    assert ran.code == 2
    assert "not rounded to a neighbour: 0.26.0, 0.27.0" in ran.err
    assert f"and {RELEASES[-1]} are; choose one of them" in ran.err
    monkeypatch.setenv(release.VARIABLE, "0.29.9")
    ran = cli("replay", small)
    assert ran.code == 2
    assert "SCHEDBENCH_VLLM_VERSION: --vllm-version 0.29.9 is not modelled" in ran.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--max-num-active-seqs", "4"),
            "vLLM 0.26.0 has no such flag; 0.31.0, 0.32.0 and 0.33.0 have it",
        ),
        (("--max-num-partial-prefills", "2", *NEW), "vLLM 0.33.0 has no such flag; 0.26.0 has it"),
    ],
)
def test_a_flag_the_release_lacks_is_refused_with_the_one_that_has_it(
    cli: Cli, small: Path, flags: tuple[str, ...], said: str
) -> None:
    ran = cli("replay", small, *flags)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize(
    ("found", "told"), [("0.33.0", True), ("0.26.0", False), ("0.34.0", False), (None, False)]
)
def test_an_installed_release_that_is_not_the_one_followed_is_told_in_a_line(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch, found: str | None, *, told: bool
) -> None:
    monkeypatch.setattr(release, "installed", lambda: found)
    lines = [line for line in cli("replay", small, "--no-store").err.splitlines() if "here" in line]
    said = "note: vLLM 0.33.0 is installed here, and 0.26.0 is followed; --vllm-version 0.33.0"
    assert [line.startswith(said) for line in lines] == [True] * told


def test_a_baseline_says_its_release_and_the_environment_does_not(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("gate", small, "--baseline", "base.json", "--update")
    monkeypatch.setenv(release.VARIABLE, "0.33.0")
    ran = cli("gate", small, "--baseline", "base.json")
    assert ran.code == 0
    assert "vLLM 0.26.0" in ran.out
    cli("gate", small, "--baseline", "other.json", "--update")
    assert json.loads(Path("other.json").read_text())["flags"]["vllm_version"] == "0.33.0"


def test_config_shows_the_release_that_is_set(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(release.VARIABLE, "0.33.0")
    rows = json.loads(cli("config", "--json").out)["flags"]
    row = next(each for each in rows if each["flag"] == "--vllm-version")
    assert (row["value"], row["source"]) == ("0.33.0", "set")


def test_every_summary_marks_a_mixture(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *MIXTURE, "--out", "mixed")
    assert f"{MIXED}, asynchronous" in ran.out
    assert (
        json.loads(cli("replay", small, *MIXTURE, "--no-store", "--json").out)["release"] == MIXED
    )
    cli("replay", small, "--out", "plain")
    commands = [
        ("compare", "plain", "mixed"),
        ("explain", "mixed"),
        ("sweep", small, *MIXTURE, "--max-num-seqs", "4,8", "--jobs", "1", "--no-store"),
        ("tune", small, *MIXTURE, "--max-num-seqs", "4,8", "--replays", "2", "--jobs", "1",
         "--goal", "ttft", "--no-store"),
        ("gate", small, *MIXTURE, "--baseline", "base.json"),
        ("sweep", small, *MIXTURE, "--vllm-version", "0.26.0,0.33.0", "--jobs", "1", "--no-store"),
    ]  # fmt: skip
    cli("gate", small, *MIXTURE, "--baseline", "base.json", "--update")
    for words in commands:
        assert MIXED in cli(*words).out, words[0]


def test_every_summary_names_the_release(cli: Cli, small: Path) -> None:
    cli("replay", small, *NEW, "--out", "new")
    for words in (
        ("compare", "new", "new"),
        ("explain", "new"),
        ("sweep", small, *NEW, "--max-num-seqs", "4,8", "--jobs", "1", "--no-store"),
    ):
        assert "vLLM 0.33.0" in cli(*words).out, words[0]
