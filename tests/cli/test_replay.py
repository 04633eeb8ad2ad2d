import csv
import io
import json
import re
from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.results.stored_run import StoredRun

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")


def test_a_replay_prints_a_summary_and_says_where_it_is_kept(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT)
    assert ran.code == 0
    assert "40 of 40 finished" in ran.out
    (kept,) = re.findall(r"kept in (runs/\S+)\n", ran.err)
    assert StoredRun.open(kept).summary["requests_finished"] == 40


def test_results_go_to_stdout_and_everything_else_to_stderr(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT, "--json")
    assert json.loads(ran.out)["requests_finished"] == 40
    assert "warning:" in ran.err


def test_without_a_trace_the_shipped_sample_is_replayed_and_it_is_said(cli: Cli) -> None:
    ran = cli("replay", "--limit", "50", "--no-store")
    assert ran.code == 0
    assert "50 of 50 finished" in ran.out
    assert "shipped sample" in ran.err


def test_what_nobody_said_about_the_server_is_shown_as_assumed(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, "--num-gpu-blocks", "80", "--no-store", "--cost", "pass:1ms")
    assumed = ran.out[ran.out.index("assumed") :]
    assert "--block-size 16" in assumed
    assert "--max-num-seqs 1024" in assumed
    for given_or_of_no_effect in ("--num-gpu-blocks", "--cost", "--model ", "--gpu"):
        assert given_or_of_no_effect not in assumed


def test_flags_may_have_underscores_and_counts_the_units_of_vllm(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, "--max_num_batched_tokens", "2k", "--max-model-len=1K", "--out", "r")
    assert ran.code == 0
    scheduler = StoredRun.open("r").manifest["scheduler"]
    assert (scheduler["max_num_batched_tokens"], scheduler["max_model_len"]) == (2000, 1024)


def test_switches_have_their_no_form(cli: Cli, small: Path) -> None:
    cli("replay", small, "--no-enable-prefix-caching", "--no-async-scheduling", "--out", "r")
    scheduler = StoredRun.open("r").manifest["scheduler"]
    assert (scheduler["enable_prefix_caching"], scheduler["async_scheduling"]) == (False, False)


def test_no_store_leaves_nothing_behind(cli: Cli, small: Path, tmp_path: Path) -> None:
    assert cli("replay", small, "--no-store").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["small.parquet"]


@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
def test_every_format_holds_the_passes(cli: Cli, small: Path, form: str) -> None:
    ran = cli("replay", small, *TIGHT, "--no-store", "--format", form)
    passes = json.loads(cli("replay", small, *TIGHT, "--no-store", "--json").out)["passes"]
    assert str(passes) in ran.out


def test_csv_is_one_row_a_number(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT, "--no-store", "--format", "csv")
    rows = {row["metric"]: row["value"] for row in csv.DictReader(io.StringIO(ran.out))}
    assert rows["requests_finished"] == "40"
    assert int(rows["preempted"]) > 0


def test_windows_are_half_open_and_the_limit_counts_inside_them(cli: Cli, small: Path) -> None:
    def replayed(*words: str) -> int:
        ran = cli("replay", small, "--no-store", "--json", *words)
        return json.loads(ran.out)["requests"]

    assert replayed("--from", "50ms", "--to", "100ms") == 10
    assert replayed("--from", "50ms", "--to", "100ms", "--limit", "3") == 3


def test_the_warm_up_is_left_out_and_said(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, "--no-store", "--warmup", "100ms", "--json")
    summary = json.loads(ran.out)
    assert summary["requests_in_warmup"] == 20
    assert summary["ttft_ns"]["n"] == 20


def test_goodput_is_there_when_bounds_are(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, "--no-store", "--slo", "ttft:500ms,tpot:50ms", "--json")
    assert json.loads(ran.out)["goodput"]["slo_ns"] == {"ttft": 500_000_000, "tpot": 50_000_000}


def test_events_act_on_the_replay(cli: Cli, small: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(
        '{"at": "20ms", "op": "abort", "request": 3}\n{"at": "30ms", "op": "abort", "request": 4}\n'
    )
    ran = cli("replay", small, "--no-store", "--events", events, "--json")
    assert json.loads(ran.out)["requests_aborted"] == 2


def test_a_whole_server_command_line_is_taken_and_what_it_leaves_out_is_listed(
    cli: Cli, small: Path
) -> None:
    line = "vllm serve some/model --max-num-seqs 7 --block-size 32 --port 80"
    ran = cli("replay", small, "--serve-args", line, "--max-num-seqs", "9", "--out", "r")
    assert ran.code == 0
    assert StoredRun.open("r").manifest["scheduler"]["max_num_seqs"] == 9
    assert "--max-num-seqs is 9 as given, not 7 as in --serve-args" in ran.err
    assert "some/model is not built in" in ran.err
    assert "no effect on scheduling: --port (the HTTP front end)" in ran.err


def test_a_file_of_another_format_is_imported_and_what_was_guessed_is_said(
    cli: Cli, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("ts,isl,osl\n1000,30,4\n1500,40,5\n")
    ran = cli("replay", log, "--map", "arrival=ts:ms,prompt=isl,output=osl", "--no-store", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["requests"] == 2
    assert "2 requests over 0.5 s" in ran.err
    assert "milliseconds" in ran.err


def test_a_stalled_replay_ends_with_3_and_names_the_flag_that_helps(cli: Cli, small: Path) -> None:
    ran = cli(
        "replay", small, "--num-gpu-blocks", "13", "--max-model-len", "1024",
        "--no-scheduler-reserve-full-isl", "--no-enable-prefix-caching", "--out", "stalled",
        "--too-long", "truncate",
    )  # fmt: skip
    assert ran.code == 3
    assert "stalled: no request can be scheduled any more" in ran.err
    assert "--num-gpu-blocks" in ran.err
    assert "what was recorded is in stalled" in ran.err


@pytest.mark.parametrize("state", ["all", "new"])
def test_a_pause_that_nothing_ends_is_named_with_its_time_and_not_the_pool(
    cli: Cli, small: Path, state: str
) -> None:
    lines = ['{"at": "10ms", "op": "pause", "state": "all"}', '{"at": "20ms", "op": "resume"}']
    lines.append(json.dumps({"at": "50ms", "op": "pause", "state": state}))
    Path("events.jsonl").write_text("\n".join(lines))
    ran = cli("replay", small, "--events", "events.jsonl", "--no-store")
    assert ran.code == 3
    assert f"paused (state {state}: " in ran.err
    assert "since 50.0 ms, and no event resumes it" in ran.err
    assert "--num-gpu-blocks" not in ran.err


def test_prompts_over_the_pool_are_refused_before_anything_runs(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, "--num-gpu-blocks", "6", "--max-model-len", "1024")
    assert ran.code == 2
    assert "longer than the whole KV pool of 5 usable blocks (80 tokens)" in ran.err
    assert re.search(
        r"Give --num-gpu-blocks 17 or more; 12 more fit without the answer only", ran.err
    )


def test_it_ends_with_the_commands_to_ask_next_as_the_replay_was_typed(
    cli: Cli, small: Path
) -> None:
    tight = cli("replay", small, *TIGHT, "--format", "csv", "--no-steady")
    assert "what held it back:  schedbench explain runs/" in tight.err
    assert (
        f"what would change:  schedbench sweep {small} --max-model-len 1024 --no-steady "
        "--num-gpu-blocks 80,160,320\n"
    ) in tight.err
    roomy = cli("replay", small, "--speedup=2", "--out", "r")
    assert "what held it back:  schedbench explain r\n" in roomy.err
    assert f"what would change:  schedbench sweep {small} --speedup 1,2,4,8\n" in roomy.err


def test_the_commands_named_at_the_end_can_be_run(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT)
    for line in ran.err.splitlines():
        if "schedbench" in line and line.startswith("what"):
            assert cli(*line.partition("schedbench ")[2].split()).code == 0


def test_a_closed_loop_that_the_trace_has_none_of_is_said(cli: Cli, small: Path) -> None:
    words = ("--num-gpu-blocks", "160", "--max-model-len", "1024", "--no-store")
    ran = cli("replay", small, *words, "--arrivals", "closed")
    assert "--arrivals closed changed nothing" in " ".join(ran.err.split())
    assert "changed nothing" not in cli("replay", small, *words).err


def test_no_replay_is_busy_for_more_than_all_of_the_time(cli: Cli, small: Path) -> None:
    words = ("--max-model-len", "1024", "--no-store", "--speedup", "50")
    for more in ((), ("--no-async-scheduling",), ("--pipeline-parallel-size", "4")):
        assert "(100.0 % busy)" in cli("replay", small, *words, *more).out
