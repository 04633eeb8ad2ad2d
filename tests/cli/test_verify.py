import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Cli

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
    assert lines[-1] == "different: 1 of 1 logs"


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


def test_random_cases_draw_their_own_flags_and_say_so(cli: Cli) -> None:
    ran = cli("verify", "--fuzz", "1", "--max-num-seqs", "4")
    assert ran.code == 2
    assert "--fuzz draws --max-num-seqs anew for each case: leave it out" in ran.err
