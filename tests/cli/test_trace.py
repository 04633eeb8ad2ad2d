import json
import re
from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.workloads.store import read_trace

LOG = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_an_import_says_what_it_guessed(cli: Cli, log: Path) -> None:
    ran = cli("trace", "import", log, "-o", "log.parquet")
    assert ran.code == 0
    assert "azure (by its content)" in ran.out
    assert "dates without a zone, in UTC (assumed; see --tz)" in ran.out
    assert "2 over 4.3 s" in ran.out
    assert read_trace("log.parquet").num_requests == 2


def test_a_file_is_written_over_only_with_force(cli: Cli, log: Path) -> None:
    cli("trace", "import", log, "-o", "log.parquet")
    refused = cli("trace", "import", log, "-o", "log.parquet")
    assert refused.code == 4
    assert "give --force to write over it" in refused.err
    assert cli("trace", "import", log, "-o", "log.parquet", "--force").code == 0


def test_dropped_rows_are_counted(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG + "2023-11-16 18:15:51.0000000,9,0\n")
    assert "--on-zero-output drop" in cli("trace", "import", path, "-o", "x.parquet").err
    ran = cli("trace", "import", path, "--on-zero-output", "drop", "-o", "x.parquet")
    assert "dropped: 1" in ran.out


def test_columns_are_named_with_map(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_text("ts,isl,osl\n1000,30,4\n1500,40,5\n")
    ran = cli("trace", "import", path, "--map", "arrival=ts:ms,prompt=isl,output=osl",
              "-o", "x.jsonl", "--json")  # fmt: skip
    assert json.loads(ran.out)["duration_ns"] == 500_000_000


def test_a_row_that_breaks_a_rule_is_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG.replace("396", "-1"))
    ran = cli("trace", "check", path)
    assert ran.code == 2
    assert "row 1 (line 3), column ContextTokens" in ran.err


def test_a_trace_that_keeps_the_rules_is_said_to(cli: Cli, small: Path) -> None:
    ran = cli("trace", "check", small, "--max-model-len", "150")
    assert ran.code == 0
    assert "40 requests keep every rule" in ran.out
    assert "leave no room" in ran.out
    assert cli("trace", "check", small, "--max-model-len", "150", "--strict").code == 1


def test_a_check_shows_arrivals_over_time_and_names_the_first_rows_of_a_finding(
    cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    lines = "".join(f"{at},{prompt},4\n" for at, prompt in enumerate([90, 50, *[90] * 6, 60]))
    path.write_text(f"ts,isl,osl\n{lines}")
    asked = ("trace", "check", path, "--map", "arrival=ts:s,prompt=isl,output=osl",
             "--max-model-len", "90")  # fmt: skip
    ran = cli(*asked)
    assert "1 requests/s over 8.0 s" in ran.out
    assert "█" in ran.out
    assert "7 prompts leave no room" in ran.out
    assert "(rows 0, 2, 3, 4, 5 and 2 more)" in ran.out
    found = json.loads(cli(*asked, "--json").out)["findings"]
    assert [(each["rows"], each["first_rows"]) for each in found] == [(7, [0, 2, 3, 4, 5])]
    alone = cli(*asked[:-1], "91", "--limit", "2")
    odd = "1 output passes 91 tokens and will end there, as in vLLM, or are left out by --too-long"
    assert f"{odd} drop (row 0)" in alone.out


@pytest.mark.parametrize("step_s", [0.0007, 0.03, 0.7, 1, 3, 70])
def test_a_trace_has_one_rate_wherever_it_is_told(cli: Cli, tmp_path: Path, step_s: float) -> None:
    path = tmp_path / "log.csv"
    lines = "".join(f"{at * step_s:.4f},90,4\n" for at in (0, 1, 2, 3, 7, 11, 13))
    path.write_text(f"ts,isl,osl\n{lines}")
    named = (path, "--map", "arrival=ts:s,prompt=isl,output=osl")
    a_rate = r"([\d,.]+) requests/s"
    rates: list[tuple[str, str]] = []
    for words in (("check",), ("describe",), ("import", "-o", tmp_path / "t.parquet")):
        ran = cli("trace", *words, *named)
        rates += re.findall(f"arrivals +{a_rate}|, {a_rate}\n", ran.err + ran.out)
    told = ["".join(pair) for pair in rates]
    assert len(told) == 3  # once on each screen
    assert len(set(told)) == 1
    assert float(told[0].replace(",", "")) == pytest.approx(6 / (13 * step_s), rel=0.05)


def test_a_description_has_lengths_rate_and_plots(cli: Cli, small: Path) -> None:
    ran = cli("trace", "describe", small)
    assert "200 requests/s over 195.0 ms" in ran.out
    assert "█" in ran.out
    assert "prompt tokens" in ran.out
    assert json.loads(cli("trace", "describe", small, "--json").out)["requests"] == 40


def test_a_slice_is_the_window_then_the_limit_then_scaled_and_repeated(
    cli: Cli, small: Path
) -> None:
    cli("trace", "slice", small, "--from", "50ms", "--limit", "10", "--speedup", "2",
        "--repeat", "3", "-o", "cut.parquet")  # fmt: skip
    cut = read_trace("cut.parquet")
    assert cut.num_requests == 30
    assert [step["step"] for step in cut.provenance["transforms"]] == ["slice", "scale", "repeat"]


def test_an_export_prints_the_command_that_replays_it(cli: Cli, small: Path) -> None:
    ran = cli("trace", "export", small, "-o", "timed.jsonl")
    assert "vllm bench serve --dataset-name timed_trace --dataset-path timed.jsonl" in ran.out
    assert "client" in ran.err
    assert len(Path("timed.jsonl").read_text().splitlines()) == 40


def test_equal_seeds_make_equal_traces(cli: Cli) -> None:
    words = ("trace", "synth", "--requests", "50", "--turns", "uniform:low=1,high=3", "--json")
    digests = {
        json.loads(cli(*words, "-o", f"{n}.parquet", "--seed", s).out)["digest"]
        for n, s in enumerate(["7", "7", "8"])
    }
    assert len(digests) == 2


def test_sessions_need_turns(cli: Cli) -> None:
    ran = cli("trace", "synth", "--think-ms", "100", "-o", "x.parquet")
    assert ran.code == 2
    assert "give --turns too" in ran.err


def test_no_parquet_is_written_under_a_name_that_promises_something_else(
    cli: Cli, log: Path
) -> None:
    for name in ("x.csv", "x.json", "x.csv.gz"):
        ran = cli("trace", "import", log, "-o", name)
        assert ran.code == 4
        assert "Parquet, or as JSON Lines" in ran.err
        assert not Path(name).exists()
    assert cli("trace", "import", log, "-o", "x.jsonl").code == 0
