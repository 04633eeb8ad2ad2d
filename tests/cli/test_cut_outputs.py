"""What a replay leaves out of what the trace asks for is said."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Cli

from schedbench.results.stored_run import StoredRun


def _row(prompt: int, answer: int, **more: int) -> dict[str, Any]:
    return {"arrival_ns": 0, "prompt_tokens": prompt, "output_tokens": answer, **more}


FLAGS = ("--max-model-len", "1024")
SESSION = {
    "arrival_ns": 0,
    "prompt_tokens": 600,
    "output_tokens": 300,
    "chunks": [
        {"delay_ns": 5 * 10**8, "prompt_tokens": 25, "output_tokens": 300},
        {"delay_ns": 9 * 10**8, "prompt_tokens": 0, "output_tokens": 0},
    ],
}


@pytest.mark.parametrize(
    ("row", "flags", "cut"),
    [
        (_row(600, 600), FLAGS, 176),
        (_row(130_000, 5_000), (), 3_928),
        (_row(600, 600), (*FLAGS, "--no-steady"), 176),
        (_row(600, 600), (*FLAGS, "--no-async-scheduling"), 176),
        (_row(600, 600), (*FLAGS, "--spec-tokens", "3"), 176),
        (_row(600, 600), (*FLAGS, "--arrivals", "closed"), 176),
        (_row(600, 600, max_tokens=700), FLAGS, 176),
        (_row(600, 424, max_tokens=700), FLAGS, 0),
        (_row(600, 424), FLAGS, 0),
        (SESSION, FLAGS, 200),
        (SESSION, ("--max-model-len", "1300"), 0),
    ],
)
def test_output_tokens_that_the_context_does_not_hold_are_in_table_summary_and_warning(
    cli: Cli, tmp_path: Path, row: dict[str, Any], flags: tuple[str, ...], cut: int
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    told = ("--out", "run", "--cost", "pass:1ms")
    ran = cli("replay", "t.jsonl", *told, *flags)
    assert ran.code == 0, ran.err
    run = StoredRun.open(str(tmp_path / "run"))
    (kept,) = run.requests().to_pylist()
    asked = row["output_tokens"] + sum(each["output_tokens"] for each in row.get("chunks", ()))
    assert kept["requested_output_tokens"] == asked
    assert kept["output_tokens"] == asked - cut
    assert run.summary["requests_cut_short"] == bool(cut)
    assert run.summary["output_tokens_cut"] == cut
    warning = f"got fewer output tokens than the trace asks for, {cut:,} tokens in all"
    assert (warning in " ".join(ran.err.split())) is bool(cut)


def test_what_the_trace_asks_for_is_what_explain_says_was_asked_for(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps(_row(600, 600)))
    cli("replay", "t.jsonl", "--out", "run", "--cost", "pass:1ms", *FLAGS)
    said = " ".join(cli("explain", "run", "--request", "0").out.split())
    assert "asked for 600 prompt tokens, 600 out" in said
    assert "got 424 of 600 output tokens" in said


def test_configurations_that_cut_differently_are_not_called_the_same_work(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps(_row(600, 600)))
    swept = cli("sweep", "t.jsonl", "--max-model-len", "1024,2048", "--cost", "pass:1ms")
    assert "by 0 to 176 tokens a configuration" in " ".join(swept.err.split())
    assert "cut" in swept.out
    for length in ("1024", "2048"):
        flags = ("--cost", "pass:1ms", "--max-model-len", length)
        cli("replay", "t.jsonl", "--out", length, *flags)
    compared = cli("compare", "1024", "2048")
    assert "by 0 to 176 tokens a configuration" in " ".join(compared.err.split())
    assert "cut short" in compared.out


MIXED = [_row(100, 20), _row(900, 200), _row(5_000, 20), _row(700, 300, max_tokens=400), SESSION]
DRAFTS = ("--spec-tokens", "3", "--spec-method", "eagle")


@pytest.mark.parametrize("mode", [(), ("--no-async-scheduling",), DRAFTS, ("--no-steady",)])
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--num-gpu-blocks", "64", "--max-model-len", "8192"), 2),
        (("--num-gpu-blocks", "1000", "--max-model-len", "1008"), 2),
        (("--num-gpu-blocks", "500", "--max-model-len", "5010"), 0),
        (("--num-gpu-blocks", "315", "--max-model-len", "8192"), 3),
        (("--num-gpu-blocks", "60", "--max-model-len", "8192", "--too-long", "truncate"), 3),
    ],
)
def test_requests_that_stay_after_the_advised_drop_end_whole(
    cli: Cli, tmp_path: Path, flags: tuple[str, ...], code: int, mode: tuple[str, ...]
) -> None:
    mixed = MIXED[: len(MIXED) - (mode == DRAFTS)]  # 0.26.0 loses the session beside drafts
    rows = [{**row, "arrival_ns": at * 10**9} for at, row in enumerate(mixed)]
    rows[2]["output_tokens"] = 60 if "315" in flags else 20
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("replay", "t.jsonl", "--cost", "pass:1ms", "--no-scheduler-reserve-full-isl", *mode)
    first = cli(*words, *flags, "--no-store")
    assert first.code == code, first.err
    advice = " ".join(first.err.split())
    assert "--too-long drop" in advice
    kept = [word for word in flags if word not in ("--too-long", "truncate")]
    after = cli(*words, *kept, "--too-long", "drop", "--out", "after")
    assert after.code == 0, after.err
    summary = StoredRun.open(str(tmp_path / "after")).summary
    assert 0 < summary["requests_finished"] == summary["requests"] < len(rows)
    assert summary["requests_cut_short"] == 0
