"""From a recorded server to its trace, the same passes again, and the comparison that says so."""

import json
import time
from pathlib import Path

import pytest
from cli_runs import Cli
from roomy_scheduler import RecordedRoomy, request

from schedbench.runner import vllm_recorder

SPAN = {
    "name": "llm_request",
    "startTimeUnixNano": "1785000000000000000",
    "attributes": [
        {"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": "40"}},
        {"key": "gen_ai.usage.completion_tokens", "value": {"intValue": "3"}},
    ],
}
ITERATION = (
    "Engine 000: Iteration(0): 1 context requests, 40 context tokens, 0 generation requests, "
    "0 generation tokens, iteration elapsed time: 8.25 ms, GPU KV cache usage: 0.1%\n"
)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCHEDBENCH_RECORD_DIR", str(tmp_path))
    monkeypatch.setattr(vllm_recorder, "_vllm_version", lambda: "0.26.0")
    scheduler = RecordedRoomy()
    for number in range(12):
        scheduler.add_request(request(f"r{number}", time.time(), 20 + number, 4, 9))
        scheduler.update_from_output(scheduler.schedule(), None)
    while scheduler.requests:
        scheduler.update_from_output(scheduler.schedule(), None)
    scheduler.shutdown()
    path: Path = scheduler._recording.writer.path
    return path


def test_a_recording_is_imported_replayed_and_called_equal(cli: Cli, recorded: Path) -> None:
    ran = cli("trace", "import", recorded, "-o", "served.parquet")
    assert ran.code == 0
    assert "12" in ran.out
    ran = cli("replay", "served.parquet", "--recorded", recorded, "--out", "again")
    assert ran.code == 0
    ran = cli("compare", recorded, "again")
    assert ran.code == 0
    assert "equal, in decisions and in time" in ran.out


def test_a_replay_on_a_servers_clock_can_be_explained(cli: Cli, recorded: Path) -> None:
    cli("replay", recorded, "--recorded", recorded, "--out", "again")
    assert "FINISHED_" in cli("explain", "again", "--request", "5").out


@pytest.mark.parametrize(
    ("command", "needs"),
    [(["explain"], "explain"), (["report"], "a report"), (["compare", "--by", "client"], "--by")],
)
def test_what_only_a_replay_knows_is_refused_of_a_recording(
    cli: Cli, recorded: Path, command: list[str], needs: str
) -> None:
    ran = cli(*command, recorded)
    assert ran.code != 0
    assert f"was written by a server, and {needs} needs a replay: import its trace" in ran.err


def test_other_flags_than_the_servers_leave_its_course_and_say_so(cli: Cli, recorded: Path) -> None:
    words = ("--recorded", recorded, "--max-num-batched-tokens", "8", "--max-num-seqs", "8")
    ran = cli("replay", recorded, *words, "--out", "other")
    assert ran.code != 0
    assert "recorded times fit only the trace and the flags" in ran.err


def test_spans_become_a_trace_and_iterations_a_run(cli: Cli) -> None:
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}
    Path("spans.jsonl").write_text(json.dumps(export) + "\n")
    Path("server.log").write_text(ITERATION)
    assert cli("trace", "import", "spans.jsonl", "-o", "spans.parquet").code == 0
    words = ("--input-format", "vllm-iterations", "-o", "logged")
    ran = cli("trace", "import", "server.log", *words)
    assert ran.code == 0
    assert "8.25 ms" in ran.out
    cli("replay", "spans.parquet", "--cost", "pass:8ms", "--out", "modelled")
    ran = cli("compare", "modelled", "logged", "--across-traces")
    assert ran.code == 0
    assert "tokens scheduled" in ran.out
    assert "logged  a release that is not told  time=iterations logged in server.log" in ran.out
    assert "None" not in ran.out
    ran = cli("compare", "modelled", "logged")
    assert ran.code == 2
    assert "logged does not say which trace it is of" in ran.err


def test_the_page_on_recording_can_be_followed_line_by_line(cli: Cli, recorded: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/recording.md").read_text().partition("\n## ")[0]
    lines = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    assert not [line for line in lines if line.startswith("cd ")]
    commands = [line.split()[1:] for line in lines if line.startswith("schedbench ")]
    assert [words[0] for words in commands] == ["trace", "replay", "replay", "compare"]
    for words in commands:
        given = [str(recorded) if word.startswith("/data/") else word for word in words]
        ran = cli(*given)
        assert ran.code == 0, (given, ran.err)
    assert "equal, in decisions and in time" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay", "server.log", "--input-format", "vllm-iterations"), "makes a run of a server"),
        (("replay", "server.log"), "trace import server.log --input-format vllm-iterations -o RUN"),
        (("trace", "import", "server.log", "-o", "x"), "--input-format vllm-iterations -o RUN"),
        (("trace", "import", "recs", "-o", "x"), "is a folder and no recording: a recording is"),
        (("replay", "server.log", "--input-format", "recording"), "server.log: is no recording"),
    ],
)
def test_what_a_server_left_says_how_it_is_read(
    cli: Cli, words: tuple[str, ...], said: str
) -> None:
    Path("server.log").write_text(ITERATION)
    Path("recs").mkdir()
    ran = cli(*words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_folder_of_recordings_says_which_one_to_name(cli: Cli, recorded: Path) -> None:
    ran = cli("trace", "import", recorded.parent, "-o", "x.parquet")
    assert ran.code == 2
    assert f"Name one of the recordings in it, such as {recorded}" in ran.err
