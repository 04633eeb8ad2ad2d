"""Where vLLM's own engine ends with an error, a replay ends too, with words and an exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from schedbench.errors import EngineEndsError
from schedbench.sched.endings import WHY, Ending

if TYPE_CHECKING:
    from pathlib import Path

    from cli_runs import Cli

HEAD = {"schedbench.schema": "trace", "schedbench.schema_version": "1.0"}
HASHED = HEAD | {"schedbench.hash_block_tokens": 16}
SHARED = {"arrival_ns": 0, "prompt_tokens": 48, "output_tokens": 4, "hash_ids": [0, 1, 2]}
LOAD = {"prefix_tokens": 48, "load_ns": 20_000_000}
RESET = {"at": "35ms", "op": "reset_prefix_cache", "preempt": True}
PASS = ("--cost", "pass:10ms", "--no-store", "--num-gpu-blocks", "100")
LENGTH = ("--max-model-len", "256")
SYNCHRONOUS = ("--no-async-scheduling",)


def session(delay_ns: int, **first: int) -> dict[str, Any]:
    chunk = {"delay_ns": delay_ns, "prompt_tokens": 5, "output_tokens": 4}
    row = {"arrival_ns": 0, "prompt_tokens": 18, "output_tokens": 3, "chunks": [chunk]}
    return {**row, **first}


CASES: dict[str, tuple[Ending, list[dict[str, Any]], tuple[str, ...], list[dict[str, Any]]]] = {
    "a failed load that stays complete": (
        Ending.EMPTY_ADMISSION,
        [
            HASHED,
            SHARED | {"remote_kv": {"prefix_tokens": 47, "valid_tokens": 0}},
            SHARED | {"remote_kv": LOAD},
            SHARED | {"remote_kv": LOAD},
        ],
        ("--kv-load-failure-policy", "recompute", *SYNCHRONOUS),
        [],
    ),
    "a forced reset while a session waits for input": (
        Ending.RESET_FAILED,
        [HEAD, session(90_000_000)],
        SYNCHRONOUS,
        [RESET],
    ),
    "a forced reset while a load holds blocks": (
        Ending.RESET_FAILED,
        [HEAD, {"arrival_ns": 0, "prompt_tokens": 64, "output_tokens": 4, "remote_kv": LOAD},
         {"arrival_ns": 0, "prompt_tokens": 8, "output_tokens": 9}],
        SYNCHRONOUS,
        [RESET | {"at": "5ms"}],
    ),
    "drafts with a pipeline and no placeholders": (
        Ending.NEGATIVE_GRANT,
        [HEAD, *({"arrival_ns": 0, "prompt_tokens": 30, "output_tokens": 20} for _ in range(2))],
        ("--pipeline-parallel-size", "2", "--spec-tokens", "3", "--spec-method", "eagle",
         "--spec-acceptance", "0", *SYNCHRONOUS),
        [],
    ),
    "a session as long as the longest sequence, with a pass in flight": (
        Ending.NEGATIVE_GRANT,
        [HEAD, session(4_490_392)],
        ("--max-num-batched-tokens", "4", "--max-num-seqs", "3", "--max-model-len", "20",
         "--async-scheduling"),
        [],
    ),
    "a padded decode that is cut below nothing": (
        Ending.NEGATIVE_COMPUTED,
        [HEAD, {"arrival_ns": 0, "prompt_tokens": 3, "output_tokens": 30},
         session(90_000_000, arrival_ns=60_000_000, prompt_tokens=1)],
        ("--spec-method", "ngram", "--spec-tokens", "8", "--spec-acceptance", "0",
         "--long-prefill-token-threshold", "1", *SYNCHRONOUS),
        [],
    ),
}  # fmt: skip


def replayed(cli: Cli, folder: Path, name: str, *words: str) -> Any:  # noqa: ANN401
    _, rows, flags, events = CASES[name]
    trace, at = folder / "t.jsonl", folder / "events.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    at.write_text("".join(json.dumps(event) + "\n" for event in events))
    told = ("--events", at) if events else ()
    length = () if "--max-model-len" in flags else LENGTH
    return cli("replay", trace, *PASS, *length, *flags, *told, *words)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_replay_ends_where_the_engine_does_with_a_code_of_its_own(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    ran = replayed(cli, tmp_path, name)
    assert ran.code == EngineEndsError.exit_code == 5
    what, *_ = WHY[CASES[name][0]].split("; ")  # the remedy names options as they are typed
    assert f"vLLM 0.26.0 ends its engine here: {what}" in ran.err
    assert " passes)\n" in ran.err
    assert "a fault of schedbench" not in ran.err


def test_what_was_recorded_before_the_end_is_kept(cli: Cli, tmp_path: Path) -> None:
    name = "a failed load that stays complete"
    words = [each for each in (*PASS, *LENGTH) if each != "--no-store"]
    _, rows, flags, _ = CASES[name]
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = cli("replay", trace, *words, *flags, "--out", tmp_path / "run")
    assert ran.code == 5
    assert "what was recorded is in" in ran.err
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert "ends its engine here" in manifest["stalled"]


def test_a_later_release_takes_the_last_token_off_a_failed_load_and_goes_on(
    cli: Cli, tmp_path: Path
) -> None:
    name = "a failed load that stays complete"
    ran = replayed(cli, tmp_path, name, "--vllm-version", "0.33.0")
    assert ran.code == 0
    assert "3 of 3 finished" in ran.out


def test_every_ending_says_what_it_is_and_what_to_do() -> None:
    assert set(WHY) == set(Ending)
    assert all("; " in text or ", " in text for text in WHY.values())
