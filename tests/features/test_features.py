"""Every kind of request in a small trace, replayed as a user does: its effect stands in the log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from feature_traces import FEATURES, path_of

from schedbench.cli.main import run
from schedbench.results.stored_run import StoredRun
from schedbench.workloads.store import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = list[dict[str, Any]]
Replayed = tuple[Rows, Rows]  # passes, and requests in the order of the trace


@pytest.fixture
def replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Replayed]:
    """Replay a feature's trace with `schedbench replay`."""

    def replay(name: str) -> Replayed:
        words = ["replay", str(path_of(name)), *FEATURES[name].words, "--out", str(tmp_path / name)]
        monkeypatch.setattr(sys, "argv", ["schedbench", *words])
        assert run(words) == 0, capsys.readouterr().err
        stored = StoredRun.open(tmp_path / name)
        by_row = stored.requests().sort_by("row")
        return stored.passes().to_pylist(), by_row.to_pylist()

    return replay


def _total(rows: Rows, name: str) -> int:
    return sum(row[name] for row in rows)


@pytest.mark.parametrize("name", FEATURES)
def test_a_trace_is_what_its_script_makes(name: str) -> None:
    assert read_trace(path_of(name)).digest == FEATURES[name].trace().digest


def test_sessions_between_two_inputs_keep_their_seats_and_blocks(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, requests = replayed("streaming")
    idle = [row for row in passes if row["seats_held_by_sessions"] == 2]
    assert idle
    for row in idle:
        assert (row["running"], row["waiting"]) == (0, 2)
        assert (row["admission_stop"], row["binding_limit"]) == ("seats_full", "seats")
        assert row["kv_blocks_held_waiting"] >= 6
    first_of_others = min(requests[row]["first_scheduled_ns"] for row in (2, 3))
    assert first_of_others == requests[1]["finish_ns"] == 80_000_000


def test_a_segment_that_stops_is_no_finished_request(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, requests = replayed("streaming")
    turns = _total(passes, "admitted")
    assert (turns, _total(passes, "finished")) == (6, 2)  # sessions are closed between passes
    assert [row["output_tokens"] for row in requests] == [8, 8, 6, 6]
    assert [row["finish_reason"] for row in requests] == ["stop", "stop", "length", "length"]


def test_a_grammar_holds_its_own_request_and_nobody_else(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, (slow, broken, rejecting, free) = replayed("grammar")
    assert slow["wait_awaiting_grammar_ns"] == slow["first_scheduled_ns"] == 30_000_000
    assert (broken["first_scheduled_ns"], broken["finish_reason"]) == (None, "error")
    assert (rejecting["output_tokens"], rejecting["finish_reason"]) == (4, "error")
    assert free["finish_ns"] < slow["first_scheduled_ns"]
    assert max(row["skipped_waiting"] for row in passes) == 2
    assert {row["waiting"] for row in passes} == {0}


def test_a_load_holds_its_blocks_while_nothing_runs(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, (loaded, at_once, cut_short, sending) = replayed("remote-kv")
    idle = [row for row in passes if row["kv_blocks_held_waiting"] and not row["tokens_scheduled"]]
    assert idle
    assert {row["kv_blocks_held_waiting"] for row in idle} == {6}
    assert {row["running"] for row in idle} <= {0, 1}
    computed = {row["start_ns"]: row["prefill_tokens"] for row in passes if row["prefill_tokens"]}
    assert computed[loaded["first_scheduled_ns"]] == 100 - 96
    assert computed[at_once["first_scheduled_ns"]] == 100 - 64
    assert computed[cut_short["first_scheduled_ns"]] == 100 - 48
    assert computed[sending["first_scheduled_ns"]] == 100
    assert loaded["wait_awaiting_remote_kv_ns"] == loaded["first_scheduled_ns"]


def test_a_request_that_is_sent_away_keeps_its_blocks_after_its_end(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, (*_, sending) = replayed("remote-kv")
    ended = [row for row in passes if row["start_ns"] >= sending["finish_ns"]]
    assert ended[0]["kv_blocks_used"] > ended[0]["kv_blocks_held_waiting"] + 1
    *_, sent = (row for row in ended if row["kv_blocks_freed_finish"])
    assert sent["kv_blocks_freed_finish"] == sent["kv_blocks_used"]
    assert ended[-1]["start_ns"] == sending["finish_ns"] + 30_000_000


def test_accepted_drafts_are_tokens_without_a_pass_of_their_own(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, requests = replayed("speculation")
    assert [row["output_tokens"] for row in requests] == [24] * 3
    first, never, drafted = (
        sum(row["first_token_ns"] < each["end_ns"] <= row["finish_ns"] for each in passes)
        for row in requests
    )
    assert (first, never) == (-(-23 // 4), 23)  # three drafts and one token a pass, or the token
    assert first < drafted < never
    for row in passes[1:]:
        known = row["prefill_tokens"] + row["decode_tokens"]
        assert row["tokens_scheduled"] == known + row["spec_tokens"]
    assert passes[3]["spec_tokens"] == 9
    assert passes[4]["spec_tokens"] == 7  # one of the three proposed a single draft


def test_a_chunk_ends_before_an_item_that_the_encoder_has_no_budget_for(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, _ = replayed("encoder")
    # The first item is shared and encoded once; the second and the third wait for a later pass.
    assert passes[0]["prefill_tokens"] == 60 + 120 + 30
    assert passes[1]["prefill_tokens"] + passes[2]["prefill_tokens"] == 60 + 90
    assert passes[0]["tokens_scheduled"] < passes[0]["token_budget"]


def test_another_adapter_waits_aside_for_a_slot_and_the_rest_pass_it(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, (one, other, same, base) = replayed("lora")
    assert passes[0]["admitted"] == 3
    assert passes[0]["skipped_waiting"] == 1
    assert same["first_scheduled_ns"] == base["first_scheduled_ns"] == 0
    assert other["wait_lora_slots_full_ns"] == other["first_scheduled_ns"] > 0
    assert other["first_scheduled_ns"] < one["finish_ns"]  # a pass ahead: its last is in flight


def test_a_token_in_flight_ends_an_evicted_request_in_the_queue(
    replayed: Callable[[str], Replayed],
) -> None:
    passes, requests = replayed("async")
    (index,) = [row["pass"] for row in passes if row["finished_while_waiting"]]
    assert passes[index + 1]["victims"] == [2]  # scheduled before the pass was folded in
    ended = requests[2]
    assert (ended["preemptions"], ended["output_tokens"]) == (1, 21)
    assert ended["finish_ns"] == passes[index]["start_ns"] + 2 * passes[index]["duration_ns"]
    assert _total(passes, "resumed") == 0
