"""Events from outside act on what is there, and what is not there is no error."""

import json
from pathlib import Path

import pytest
from cli_runs import Cli

FLAGS = ("--cost", "pass:1ms", "--no-store")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A long prompt and a short one, which ends sooner or later as flags have it."""
    rows = [
        {"arrival_ns": 0, "prompt_tokens": 900, "output_tokens": 16, "request_id": "A"},
        {"arrival_ns": 0, "prompt_tokens": 8, "output_tokens": 16, "request_id": "B"},
        {"arrival_ns": 90_000_000, "prompt_tokens": 8, "output_tokens": 4, "request_id": "C"},
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def events(tmp_path: Path, *lines: dict[str, object]) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize("mode", [(), ("--no-async-scheduling",), ("--no-steady",)], ids=str)
@pytest.mark.parametrize("request_", ["B", 1, "C", 2], ids=["ended", "row", "to come", "its row"])
def test_an_abort_of_a_request_that_is_not_there_changes_nothing_and_is_counted(
    cli: Cli, trace: Path, tmp_path: Path, request_: object, mode: tuple[str, ...]
) -> None:
    """As in vLLM, so that one file of events fits every set of flags."""
    late = events(tmp_path, {"at": "80ms", "op": "abort", "request": request_})
    plain = json.loads(cli("replay", trace, *FLAGS, *mode, "--json").out)
    ran = json.loads(cli("replay", trace, *FLAGS, *mode, "--events", late, "--json").out)
    (told,) = [each for each in ran.pop("warnings") if "abort" in each]
    assert told.startswith("1 abort was ignored, as vLLM does")
    plain.pop("warnings", None)
    assert ran == plain


def test_an_abort_of_a_request_that_is_there_ends_it(cli: Cli, trace: Path, tmp_path: Path) -> None:
    early = events(tmp_path, {"at": "3ms", "op": "abort", "request": "A"})
    ran = json.loads(cli("replay", trace, *FLAGS, "--events", early, "--json").out)
    assert ran["requests_aborted"] == 1
    assert not [each for each in ran.get("warnings", ()) if "abort" in each]


@pytest.mark.parametrize("request_", ["Z", 3, -1])
def test_an_abort_of_what_the_trace_never_has_is_refused(
    cli: Cli, trace: Path, tmp_path: Path, request_: object
) -> None:
    wrong = events(tmp_path, {"at": "3ms", "op": "abort", "request": request_})
    ran = cli("replay", trace, *FLAGS, "--events", wrong)
    assert ran.code == 2
    assert f"names the request {request_!r}, and the trace has none" in ran.err


def test_pausing_and_resuming_twice_and_resetting_an_empty_cache_change_nothing(
    cli: Cli, trace: Path, tmp_path: Path
) -> None:
    once = [{"at": "2ms", "op": "pause", "state": "new"}, {"at": "4ms", "op": "resume"}]
    twice = [each for line in once for each in (line, line)]
    reset = {"at": "0s", "op": "reset_prefix_cache"}
    found = [
        json.loads(cli("replay", trace, *FLAGS, "--events", events(tmp_path, *lines), "--json").out)
        for lines in (once, [reset, *twice])
    ]
    assert found[0] == found[1]


def test_preemptions_by_cache_resets_alone_get_no_advice_about_limits(
    cli: Cli, tmp_path: Path
) -> None:
    trace, events = tmp_path / "t.jsonl", tmp_path / "e.jsonl"
    trace.write_text('{"arrival_ns":0,"prompt_tokens":32,"output_tokens":9}\n')
    events.write_text('{"at":"1ms","op":"reset_prefix_cache","preempt":true}\n')
    words = ("--cost", "pass:1ms", "--num-gpu-blocks", "21", "--no-async-scheduling")
    assert cli("replay", trace, *words, "--events", events, "--out", "r").code == 0
    ran = cli("explain", "r", "--preemptions")
    assert ran.code == 0
    told = " ".join(ran.out.split())
    assert "what ends it no flag: every preemption is by a reset_prefix_cache" in told
    assert "--max-num-seqs" not in told
    assert "--num-gpu-blocks" not in told


def test_a_replay_that_stalls_says_which_requests_it_left_out_before(
    cli: Cli, tmp_path: Path
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("t,in,out\n0,100,20\n1,900,20\n2,5000,20\n")
    (tmp_path / "e.jsonl").write_text('{"at":"1ms","op":"pause","state":"all"}\n')
    flags = ("--events", tmp_path / "e.jsonl", "--max-model-len", "1008", "--too-long", "drop")
    ran = cli("replay", trace, "--map", "arrival=t:s,prompt=in,output=out", *flags, "--no-store")
    assert ran.code == 3
    assert "warning: 1 of 3 requests dropped" in ran.err
