import csv
import io
import json
import re
from pathlib import Path

import pytest
from cli_runs import Cli
from explain_runs import CASES, Case, plain

from schedbench.results.stored_run import StoredRun
from schedbench.results.units import percent

QUESTIONS = (
    (),
    ("--request", "30"),
    ("--pass", "60"),
    ("--preemptions",),
    ("--waiting",),
    ("--prefix",),
)


@pytest.mark.parametrize("name", ["pressed", "streaming", "remote KV", "speculative", "adapters"])
@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_question_has_an_answer_for_every_kind_of_traffic(
    cli: Cli, tmp_path: Path, name: str, question: tuple[str, ...]
) -> None:
    CASES[name].stored(tmp_path)
    ran = cli("explain", "run", *question, "--no-what-if")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(("run: ", "request 30", "pass 60"))


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_answer_is_there_for_programs_too(
    cli: Cli, tmp_path: Path, question: tuple[str, ...]
) -> None:
    CASES["pressed"].stored(tmp_path)
    asked = ("explain", "run", *question, "--no-what-if")
    assert json.loads(cli(*asked, "--json").out)
    assert list(csv.reader(io.StringIO(cli(*asked, "--format", "csv").out)))
    assert "###" in cli(*asked, "--format", "md").out


def test_no_line_of_a_timeline_is_wider_than_a_terminal(cli: Cli, tmp_path: Path) -> None:
    CASES["pressed"].stored(tmp_path)
    ran = cli("explain", "run", "--request", "30", "--no-what-if")
    lines = ran.out.splitlines()
    (start,) = [place for place, line in enumerate(lines) if line.lstrip().startswith("at s")]
    assert max(map(len, lines[start:])) <= 80


def test_without_a_run_the_newest_is_explained_also_a_stalled_one(cli: Cli, small: Path) -> None:
    cli("replay", small, "--num-gpu-blocks", "80", "--max-model-len", "1024")
    assert cli("replay", small, "--num-gpu-blocks", "13", "--max-model-len", "1024").code == 3
    ran = cli("explain", "--no-what-if")
    assert ran.code == 0
    assert "it stalled" in ran.out
    assert "--num-gpu-blocks" in ran.out
    waiting = cli("explain", "--waiting")
    assert waiting.code == 0
    assert "never ran" in waiting.out


def test_a_request_of_a_stalled_run_is_explained_with_what_would_let_it_in(
    cli: Cli, small: Path
) -> None:
    stalled = ("--num-gpu-blocks", "13", "--max-model-len", "1024", "--out", "stalled")
    assert cli("replay", small, *stalled).code == 3
    never = StoredRun.open("stalled", allow_incomplete=True).requests().to_pylist()
    (row, *_) = [each["row"] for each in never if each["first_scheduled_ns"] is None]
    ran = cli("explain", "stalled", "--request", row, "--jobs", "1")
    assert ran.code == 0
    told = "warning: stalled ended after 220 passes, and this is about those; it stalled: "
    assert ran.err.startswith(told)
    assert re.search(r"as it was +- +-", ran.out)
    assert "--num-gpu-blocks 26" in ran.out
    assert "no numbers as it was: stalled" in ran.out


def test_what_ends_preemption_is_not_set_against_the_numbers_of_a_stalled_run(cli: Cli) -> None:
    rows = [*[(0, 60, 60)] * 4, (1, 150, 80)]
    names = ("arrival_ns", "prompt_tokens", "output_tokens")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    Path("x.jsonl").write_text("\n".join(lines))
    assert cli("replay", "x.jsonl", "--num-gpu-blocks", "14", "--out", "stalled").code == 3
    asked = cli("explain", "stalled", "--preemptions", "--jobs", "1")
    assert re.search(r"as it was +- +- +- +[1-9]", asked.out)
    assert "it stalled: no request" in asked.err


def test_a_request_that_came_in_a_pause_that_never_ended_never_ran(cli: Cli, small: Path) -> None:
    Path("events.jsonl").write_text('{"at": "0s", "op": "pause", "state": "all"}')
    assert cli("replay", small, "--events", "events.jsonl", "--out", "paused").code == 3
    asked = cli("explain", "paused", "--request", "1")
    assert "it never ran" in asked.out
    assert "never waited" not in asked.out


def test_an_interrupted_run_is_explained_as_far_as_it_is_known(cli: Cli, tmp_path: Path) -> None:
    run = CASES["pressed"].stored(tmp_path)
    manifest = json.loads((run.path / "manifest.json").read_text())
    (run.path / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    ran = cli("explain", "run", "--no-what-if")
    assert "cut short" in ran.out
    asked = cli("explain", "run", "--preemptions", "--no-what-if")
    assert asked.code == 0
    passes = run.passes().num_rows
    assert (
        f"run was cut short after {passes:,} passes; this is about a replay that goes" in asked.err
    )


def test_measured_times_are_taken_as_they_were_recorded(cli: Cli, tmp_path: Path) -> None:
    run = CASES["pressed"].stored(tmp_path)
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest["time"] = {"runner": "torch", "source": "measured", "description": "on a GPU"}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    assert cli("explain", "run", "--waiting").code == 0
    ran = cli("explain", "run", "--request", "30")
    assert "the times of the run fit no other passes: here they are linear:1ms,0.01ms" in ran.out


def test_the_first_screen_names_the_limit_and_what_loosening_it_does(
    cli: Cli, tmp_path: Path
) -> None:
    CASES["seats"].stored(tmp_path)
    ran = cli("explain", "run", "--jobs", "1")
    assert re.search(r"held back by seats \(--max-num-seqs\) in \d", ran.out)
    assert "--max-num-seqs 8" in ran.out
    assert "--request" in ran.out


def test_the_first_screen_names_adapters_where_the_waiting_is_for_them(
    cli: Cli, tmp_path: Path
) -> None:
    columns = plain(lora=[row % 4 + 1 for row in range(40)])
    stored = Case(columns, {"num_gpu_blocks": 4000, "max_loras": 1}).stored(tmp_path)
    waits = stored.summary["waits"]
    share = waits["lora_slots_full_ns"] / sum(waits.values())
    (title, *_) = cli("explain", "run", "--no-what-if").out.splitlines()
    assert f"held back by adapters (--max-loras): {percent(share)} of all waiting" in title
    swept = cli("sweep", "trace.parquet", "--max-loras", "1,4", "--no-store", "--jobs", "1")
    assert re.search(r"loras [\d.]+ % of waiting", swept.out)
    assert "no limit was ever binding" not in swept.err


def test_the_first_screen_stands_without_the_trace_and_says_what_is_missing(
    cli: Cli, tmp_path: Path
) -> None:
    CASES["seats"].stored(tmp_path)
    (tmp_path / "trace.parquet").unlink()
    ran = cli("explain", "run")
    assert ran.code == 0
    assert "held back by seats" in ran.out
    assert "--trace PATH" in ran.err
    asked = cli("explain", "run", "--waiting")
    assert asked.code == 2
    assert "--trace PATH" in asked.err


def test_a_trace_that_was_moved_can_be_pointed_to(cli: Cli, tmp_path: Path) -> None:
    CASES["seats"].stored(tmp_path)
    (tmp_path / "trace.parquet").rename(tmp_path / "elsewhere.parquet")
    ran = cli("explain", "run", "--waiting", "--no-what-if", "--trace", "elsewhere.parquet")
    assert (ran.code, ran.err) == (0, "")


def test_a_run_of_a_part_of_another_format_finds_that_part_again(cli: Cli, tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    lines += [f"2023-11-16 18:00:{second:02d}.0000000,100,20" for second in range(30)]
    (tmp_path / "azure.csv").write_text("\n".join(lines))
    cli("replay", "azure.csv", "--from", "5s", "--limit", "12", "--speedup", "2", "--out", "r")
    assert StoredRun.open("r").summary["requests"] == 12
    assert cli("explain", "r", "--waiting").code == 0


def test_two_questions_at_once_are_refused(cli: Cli) -> None:
    ran = cli("explain", "--waiting", "--prefix")
    assert ran.code == 2
    assert "ask one at a time" in ran.err


def test_a_request_that_is_not_there_is_an_error_that_says_which_are(
    cli: Cli, tmp_path: Path
) -> None:
    CASES["seats"].stored(tmp_path)
    ran = cli("explain", "run", "--request", "77")
    assert ran.code == 2
    assert "a row from 0 to 39" in ran.err


def test_a_run_without_preemptions_says_so(cli: Cli, tmp_path: Path) -> None:
    Case(CASES["pressed"].columns, {"max_num_seqs": 2}).stored(tmp_path)
    ran = cli("explain", "run", "--preemptions")
    assert "no request was ever evicted" in ran.out
