import dataclasses
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_runs import Cli

from schedbench.cli.main import app
from schedbench.cli.verify_modes import MODES, UNREAD
from schedbench.runner import fuzz_parity, lockstep, record_golden, vllm_backend, vllm_terms
from schedbench.runner import installed as installed_module
from schedbench.runner.golden_log import read_log, write_log

GOLDEN = Path(__file__).parents[1] / "golden"
LOG = GOLDEN / "preempt_fcfs.0.jsonl.gz"


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """A copy of a golden log with each line passed through a function."""

    def write(change: Callable[[dict[str, Any]], None]) -> Path:
        path = tmp_path / "changed.jsonl.gz"
        with gzip.open(LOG, "rt") as lines, gzip.open(path, "wt") as out:
            for line in lines:
                found = json.loads(line)
                change(found)
                if found:
                    out.write(json.dumps(found) + "\n")
        return path

    return write


def test_equal_logs_end_with_how_many_they_are(cli: Cli) -> None:
    ran = cli("verify", "--golden", LOG, GOLDEN / "abort.0.jsonl.gz")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("equal: 2 logs, ")
    assert ran.err == ""


def test_the_first_difference_is_shown_with_both_rows_and_the_pass_before(
    cli: Cli, changed: Callable[..., Path]
) -> None:
    def one_more(found: dict[str, Any]) -> None:
        if found.get("pass", {}).get("i") == 9:
            found["pass"]["spent"] += 1

    ran = cli("verify", "--golden", changed(one_more))
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0] == "changed.jsonl.gz: first difference in pass 9: spent"
    assert [line.split()[0] for line in lines[2:5]] == ["before", "golden", "ours"]
    assert ['"i":8' in lines[2], '"i":9' in lines[3], '"i":9' in lines[4]] == [True] * 3
    assert lines[-1].startswith("different: 1 of 1 logs; golden logs of vLLM 0.26.0")


def test_a_log_that_ends_early_differs(cli: Cli, changed: Callable[..., Path]) -> None:
    def cut(found: dict[str, Any]) -> None:
        if found.get("pass", {}).get("i", 0) > 5:
            found.clear()

    ran = cli("verify", "--golden", changed(cut), "--json")
    assert ran.code == 1
    assert json.loads(ran.out)[0]["parting"]["columns"] == ["number of passes"]


def test_the_statistics_at_the_end_are_compared_too(cli: Cli, changed: Callable[..., Path]) -> None:
    def other(found: dict[str, Any]) -> None:
        if "header" in found:
            found["header"]["stats"]["tokens"] += 1

    ran = cli("verify", "--golden", changed(other))
    assert ran.code == 1
    assert "stats, tokens" in ran.out


def test_what_is_not_supported_fails_unless_it_is_to_be_skipped(
    cli: Cli, changed: Callable[..., Path]
) -> None:
    def newer(found: dict[str, Any]) -> None:
        if "header" in found:
            found["header"]["vllm_version"] = "9.9"

    path = changed(newer)
    refused, skipped = (
        cli("verify", "--golden", LOG, path, *more) for more in ((), ("--skip-unsupported",))
    )
    assert (refused.code, skipped.code) == (1, 0)
    assert "not supported: changed.jsonl.gz needs vLLM 9.9" in skipped.out
    assert skipped.out.splitlines()[-1].startswith("equal: 1 logs, ")


def test_a_file_that_is_no_golden_log_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    ran = cli("verify", "--golden", path)
    assert ran.code == 2
    assert "cannot be read as a golden log" in ran.err
    assert "holds no golden log" in cli("verify", "--golden", tmp_path).err


@pytest.mark.parametrize(
    ("words", "option", "of"),
    [
        (("--golden", LOG, "--max-num-seqs", "4"), "--max-num-seqs", "it is of verify TRACE"),
        (("--golden", LOG, "--no-async-scheduling"), "--async-scheduling", "verify TRACE"),
        (("--golden", LOG, "--vllm-version", "0.33.0"), "--vllm-version", "verify --fuzz, verify"),
        (("--golden", LOG, "--behaviour", "threshold-lone=on"), "--behaviour", "verify TRACE"),
        (("--golden", LOG, "--limit", "3"), "--limit", "verify TRACE"),
        (("--golden", LOG, "--failing", "x"), "--failing", "verify --fuzz"),
        (("--record", "D", "--golden", LOG), "--golden", "verify --golden"),
        (("--record", "D", LOG, "--json"), "--json", "verify --golden"),
        (("--fuzz", "1", "--max-num-seqs", "4"), "--max-num-seqs", "verify TRACE"),
        (("--fuzz", "1", "--record", "D"), "--record", "verify --record"),
        (("--fuzz", "1", "conv.csv"), "conv.csv", "verify TRACE"),
        (("conv.csv", "--json"), "--json", "verify --golden"),
        (("conv.csv", "--features", "async"), "--features", "verify --fuzz"),
        (("conv.csv", "--skip-unsupported"), "--skip-unsupported", "verify --golden"),
        (("conv.csv", "--slo", "ttft:1s"), "--slo", "no comparison reads it"),
    ],
)
def test_what_a_mode_does_not_read_is_refused_by_name_and_nothing_is_compared(
    cli: Cli, words: tuple[object, ...], option: str, of: str
) -> None:
    ran = cli("verify", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {option} does nothing in verify ")
    assert of in ran.err


def test_every_option_of_verify_is_read_by_a_mode_or_said_to_be_read_by_none() -> None:
    options = typer.main.get_command(app).commands["verify"].params  # type: ignore[attr-defined]
    read = frozenset().union(*(mode.reads for mode in MODES))
    assert {each.name for each in options} - {"help"} == read | UNREAD


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--golden",), "name golden logs, or folders of them"),
        (("--record", "D"), "name golden logs whose scenarios are run"),
        (("--fuzz", "0"), "--fuzz is 0: it must be from 1 to"),
        (("--fuzz", "-3"), "--fuzz is -3: it must be from 1 to"),
        (("--fuzz", "1", "--features", "nonsense"), "there are priority, pressure, prefix"),
        (("--fuzz", "1", "--features", ""), "there is no feature ''"),
    ],
)
def test_what_would_compare_nothing_is_refused(
    cli: Cli, words: tuple[object, ...], said: str
) -> None:
    ran = cli("verify", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_last_line_names_the_releases_of_the_logs_and_that_no_class_was_run(cli: Cli) -> None:
    newer = GOLDEN.with_name("golden-0.33") / LOG.name
    for logs, releases in (((LOG,), "0.26.0"), ((LOG, newer), "0.26.0 and 0.33.0")):
        last = cli("verify", "--golden", *logs).out.splitlines()[-1]
        assert last.startswith(f"equal: {len(logs)} logs, ")
        assert last.endswith(f"golden logs of vLLM {releases}, whose class itself was not run")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A vLLM 0.26.0 that agrees with everything, and what it was asked to compare."""
    asked: list[tuple[Any, ...]] = []

    def fuzz(seed: int, count: int, *_: object, **_more: object) -> list[Any]:
        asked.append((seed, count))
        return []

    for module in (vllm_terms, vllm_backend, installed_module):
        monkeypatch.setattr(module, "vllm_version", lambda: "0.26.0")
    monkeypatch.setattr(fuzz_parity, "fuzz", fuzz)
    monkeypatch.setattr(lockstep, "verify_trace", lambda *_: lockstep.Lockstep(7, None, "0.26.0"))
    return asked


@pytest.mark.usefixtures("installed")
def test_what_cannot_be_recorded_is_refused_by_name(cli: Cli, tmp_path: Path) -> None:
    plain, taken = tmp_path / "trace.jsonl", tmp_path / "taken"
    plain.write_text("{}")
    taken.write_text("")
    ran = cli("verify", "--record", "D", plain)
    assert (ran.code, "trace.jsonl: cannot be read as a golden log" in ran.err) == (2, True)
    ran = cli("verify", "--record", "D", LOG)  # there is no class to run it
    assert (ran.code, "does not run this scenario" in ran.err) == (2, True)
    assert not Path("D").exists()


def test_the_recorder_of_golden_logs_says_in_a_line_what_it_cannot_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert record_golden.main(["--check", "nothere.gz"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: nothere.gz: cannot be read as a golden log")
    assert record_golden.main(["--fuzz", "0", "1", "D", "--features", "nonsense"]) == 2
    assert "there is no feature 'nonsense'" in capsys.readouterr().err


def test_random_cases_begin_at_the_seed_that_is_typed(
    cli: Cli, installed: list[tuple[Any, ...]]
) -> None:
    ran = cli("verify", "--fuzz", "5", "--seed", "3")
    assert (ran.code, installed) == (0, [(3, 5)])
    assert ran.out == "equal: 5 random cases from seed 3 beside vLLM 0.26.0\n"


@pytest.mark.usefixtures("installed")
def test_a_mixture_is_called_one_whatever_it_is_compared_on(cli: Cli, small: Path) -> None:
    for words in (("--fuzz", "1"), (small,)):
        ran = cli("verify", *words, "--behaviour", "threshold-lone=on")
        assert ran.code == 0
        assert "ours vLLM 0.26.0 with threshold-lone=on (a mixture, no release)" in ran.out


@pytest.mark.usefixtures("installed")
def test_a_feature_that_no_case_of_the_release_has_is_refused(cli: Cli) -> None:
    ran = cli("verify", "--fuzz", "1", "--features", "active_cap,async")
    assert (ran.code, ran.out) == (2, "")
    assert "active_cap: no case of vLLM 0.26.0 has it" in ran.err


def test_a_release_that_is_not_modelled_is_not_to_be_installed(cli: Cli) -> None:
    ran = cli("verify", "--fuzz", "1", "--vllm-version", "0.29.9")
    assert ran.code == 2
    assert "--vllm-version 0.29.9 is not modelled" in ran.err
    assert "make vllm-env" not in ran.err


@pytest.mark.parametrize("name", ["preempt_fcfs", "async_preempt", "async_spec"])
def test_a_log_cut_to_its_first_passes_equals_the_run_it_was_cut_from(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    log = read_log(GOLDEN / f"{name}.0.jsonl.gz")
    header = {**log.header, "max_passes": 9}
    head = tmp_path / "head.jsonl.gz"
    write_log(head, dataclasses.replace(log, header=header, passes=log.passes[:9]))
    assert cli("verify", "--golden", head).code == 0
    other = [*log.passes[:8], {**log.passes[8], "free2": log.passes[8]["free2"] + 1}]
    write_log(head, dataclasses.replace(log, header=header, passes=other))
    assert cli("verify", "--golden", head).code == 1
    write_log(head, dataclasses.replace(log, passes=log.passes[:9]))
    assert cli("verify", "--golden", head).code == 1
