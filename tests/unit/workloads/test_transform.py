"""Laws of the transforms."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbench.errors import TraceError, UsageError
from schedbench.workloads.generators.arrivals import Gamma
from schedbench.workloads.generators.lengths import Fixed, Lengths, Lognormal, Uniform
from schedbench.workloads.generators.prefixes import Level, PrefixTree
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Sessions, Workload
from schedbench.workloads.repeat import repeat
from schedbench.workloads.reuse import ideal_reuse
from schedbench.workloads.rows import keep_rows
from schedbench.workloads.schema import COLUMNS
from schedbench.workloads.too_long import TooLong, too_long
from schedbench.workloads.trace import Trace
from schedbench.workloads.transform import scale, slice_trace, thin

CHATS = synth(
    Workload(
        requests=400,
        seed=11,
        arrivals=Gamma(10.0, 0.5),
        lengths=Lengths(Lognormal(100, 1.0), Lognormal(50, 1.0)),
        prefixes=PrefixTree((Level(2, Fixed(64)),)),
        sessions=Sessions(turns=Uniform(1, 6), think_ms=Fixed(3_000)),
    )
)

EVERY_COLUMN = Trace.from_columns(
    {
        "arrival_ns": [0, 1_000, 2_500],
        "prompt_tokens": [40, 70, 90],
        "output_tokens": [8, 10, 12],
        "request_id": ["a", None, "c"],
        "added_ns": [None, 1_500, None],
        "max_tokens": [9, None, 12],
        "hash_ids": [[1, 2], [1, 2, 3, 4, 5], None],
        "output_hash_ids": [[3], [6], None],
        "session": [5, 5, None],
        "turn": [0, 1, None],
        "after": [None, 0, None],
        "think_ns": [None, 300, None],
        "priority": [None, -1, 1],
        "client": [0, 1, None],
        "lora": [None, None, 2],
        "abort_after_ns": [None, 10_000, None],
        "chunks": [None, None, [{"delay_ns": 5, "prompt_tokens": 3, "output_tokens": 1}]],
        "cache_salt": [None, None, 7],
        "grammar": [{"delay_ns": 4, "ok": True, "rejects_at": None}, None, None],
        "remote_kv": [
            None,
            {
                "prefix_tokens": 60,
                "lookup_ns": 5,
                "load_ns": 6,
                "valid_tokens": 58,
                "send_ns": 7,
            },
            None,
        ],
        "encoder": [
            None,
            [
                {"offset": 0, "tokens": 10, "embeds": 8, "hash": 99},
                {"offset": 50, "tokens": 10, "embeds": None, "hash": 98},
            ],
            None,
        ],
        "spec": [{"rate": 0.5, "accepted": None, "drafts": [2]}, None, None],
        "group": ["g", "g", None],
        "observed": [{"ttft_ns": 1, "e2e_ns": 2, "cached_tokens": None}, None, None],
        "source_row": [0, 1, 2],
        "mine": ["x", "y", "z"],
    },
    hash_block_tokens=16,
    epoch_ns=10**18,
    provenance={"format": "hand"},
)


def rows(trace: Trace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace.table.to_pylist()
    return found


def arrivals(trace: Trace) -> list[int]:
    found: list[int] = trace.table.column("arrival_ns").to_pylist()
    return found


def last_step(trace: Trace) -> dict[str, Any]:
    step: dict[str, Any] = trace.provenance["transforms"][-1]
    return step


def test_the_hand_made_trace_has_every_column() -> None:
    assert EVERY_COLUMN.table.column_names == [column.name for column in COLUMNS] + ["mine"]


@given(st.integers(1, CHATS.num_requests - 1))
@settings(max_examples=20, deadline=None)
def test_two_windows_that_meet_hold_every_request_once(at: int) -> None:
    cut = arrivals(CHATS)[at] or 1
    early, late = slice_trace(CHATS, to_ns=cut), slice_trace(CHATS, from_ns=cut)
    shift = last_step(late)["shift_ns"]
    assert arrivals(early) + [ns + shift for ns in arrivals(late)] == arrivals(CHATS)
    ids = [row["hash_ids"] for row in rows(early) + rows(late)]
    assert ids == CHATS.table.column("hash_ids").to_pylist()


def test_a_window_is_half_open_and_the_limit_counts_what_is_inside_it() -> None:
    trace = Trace.from_columns(
        {"arrival_ns": [0, 10, 20, 30], "prompt_tokens": [1, 2, 3, 4], "output_tokens": [1] * 4},
        epoch_ns=1_000,
    )
    inside = slice_trace(trace, from_ns=10, to_ns=30)
    assert [row["prompt_tokens"] for row in rows(inside)] == [2, 3]
    assert (arrivals(inside), inside.epoch_ns) == ([0, 10], 1_010)
    assert [row["prompt_tokens"] for row in rows(slice_trace(trace, from_ns=5, limit=1))] == [2]
    with pytest.raises(UsageError, match="no request arrives"):
        slice_trace(trace, from_ns=11, to_ns=20)
    with pytest.raises(UsageError, match="use 1 to 2"):
        slice_trace(trace, from_ns=20, limit=3)


def test_a_turn_whose_predecessor_is_dropped_becomes_open_loop_and_is_counted() -> None:
    cut = slice_trace(EVERY_COLUMN, from_ns=1)
    assert "after" not in cut.table.column_names
    assert "think_ns" not in cut.table.column_names
    assert last_step(cut) == {
        "step": "slice",
        "from_ns": 1,
        "rows_dropped": 1,
        "made_open_loop": 1,
        "shift_ns": 1_000,
    }
    assert (cut.epoch_ns, rows(cut)[0]["added_ns"]) == (10**18 + 1_000, 500)
    assert [row["mine"] for row in rows(cut)] == ["y", "z"]


@given(st.floats(0.05, 0.95), st.integers(0, 1_000))
@settings(max_examples=30, deadline=None)
def test_kept_turns_follow_the_row_that_they_followed(fraction: float, seed: int) -> None:
    # Independent rows, not sessions: dependencies break, and those that hold are renumbered.
    keep = np.random.default_rng(seed).random(CHATS.num_requests) < fraction
    keep[0] = True
    columns = CHATS.table.append_column("source_row", [list(range(CHATS.num_requests))])
    part = keep_rows(Trace(columns, 16), keep, {"step": "test"})
    before = CHATS.table.column("after").to_pylist()
    for row in rows(part):
        old = before[row["source_row"]]
        expected = None if old is None or not keep[old] else old
        now = row.get("after")
        assert (None if now is None else rows(part)[now]["source_row"]) == expected


@given(st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000))
@settings(max_examples=50, deadline=None)
def test_scaling_is_the_exact_floor_and_keeps_order_and_count(factor: Fraction) -> None:
    scaled = scale(CHATS, str(factor))
    assert arrivals(scaled) == [
        ns * factor.denominator // factor.numerator for ns in arrivals(CHATS)
    ]
    same = [name for name in CHATS.table.column_names if name != "arrival_ns"]
    assert scaled.table.select(same).equals(CHATS.table.select(same))


def test_a_decimal_speedup_is_exact_near_the_largest_times() -> None:
    late = Trace.from_columns(
        {"arrival_ns": [0, 2**60 - 1], "prompt_tokens": [1, 1], "output_tokens": [1, 1]}
    )
    assert arrivals(scale(late, "1.1"))[1] == (2**60 - 1) * 10 // 11
    assert arrivals(scale(late, 1.1)) == arrivals(scale(late, "1.1"))
    with pytest.raises(UsageError, match="292 years"):
        scale(late, "0.1")


def test_scaling_leaves_durations_alone_unless_think_time_is_asked_for() -> None:
    twice = scale(EVERY_COLUMN, 2)
    assert [row["added_ns"] for row in rows(twice)] == [None, 750, None]
    changed = {"arrival_ns", "added_ns"}
    for old, new in zip(rows(EVERY_COLUMN), rows(twice), strict=True):
        assert {k: v for k, v in old.items() if k not in changed} == {
            k: v for k, v in new.items() if k not in changed
        }
    assert rows(scale(EVERY_COLUMN, 2, think=True))[1]["think_ns"] == 150


@pytest.mark.parametrize("speedup", ["0", "-1", "fast", "1/0", "nan", "inf"])
def test_a_speedup_that_is_no_positive_number_is_refused(speedup: str) -> None:
    with pytest.raises(UsageError, match="speedup"):
        scale(CHATS, speedup)


def test_thinning_keeps_whole_sessions_and_a_smaller_part_inside_a_larger() -> None:
    parts = [thin(CHATS, fraction, seed=3) for fraction in (0.2, 0.5, 1.0)]
    kept = [set(part.table.column("session").to_pylist()) for part in parts]
    assert kept[0] < kept[1] < kept[2]
    sizes = [part.num_requests for part in parts]
    of = CHATS.table.column("session").to_pylist()
    assert sizes == [sum(session in sessions for session in of) for sessions in kept]
    assert 0.4 < len(kept[1]) / len(kept[2]) < 0.6
    assert last_step(parts[1])["made_open_loop"] == 0


def test_thinning_to_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match="nothing is left"):
        thin(EVERY_COLUMN, 1e-9)


@given(st.integers(1, 4))
@settings(max_examples=4, deadline=None)
def test_a_repeated_trace_demands_the_same_work_again(times: int) -> None:
    once, again = ideal_reuse(CHATS), ideal_reuse(repeat(CHATS, times))
    assert once is not None
    assert again is not None
    assert again.hit_tokens == times * once.hit_tokens
    assert again.prompt_tokens == times * once.prompt_tokens


def test_every_round_of_a_repeat_is_new_in_all_that_names_something() -> None:
    twice = repeat(EVERY_COLUMN, 2, gap_ns=500)
    first, second = rows(twice)[:3], rows(twice)[3:]
    assert first == rows(EVERY_COLUMN)
    assert arrivals(twice)[3:] == [3_000, 4_000, 5_500]
    assert [row["added_ns"] for row in second] == [None, 4_500, None]
    assert [row["request_id"] for row in second] == ["a~1", None, "c~1"]
    assert [row["session"] for row in second] == [11, 11, None]
    assert [row["after"] for row in second] == [None, 3, None]
    assert [row["hash_ids"] for row in second] == [[8, 9], [8, 9, 10, 11, 12], None]
    assert [row["output_hash_ids"] for row in second] == [[10], [13], None]
    assert [item["hash"] for item in second[1]["encoder"]] == [199, 198]
    named = {"arrival_ns", "added_ns", "request_id", "session", "after", "encoder"}
    named |= {"hash_ids", "output_hash_ids"}
    for old, new in zip(first, second, strict=True):
        assert {k: v for k, v in old.items() if k not in named} == {
            k: v for k, v in new.items() if k not in named
        }


def test_ids_that_fill_64_bits_are_renumbered_so_that_rounds_stay_apart() -> None:
    top = 2**64 - 1
    full = Trace.from_columns(
        {
            "arrival_ns": [0, 1],
            "prompt_tokens": [32, 32],
            "output_tokens": [1, 1],
            "hash_ids": [[top, 5], [top, 6]],
        },
        hash_block_tokens=16,
    )
    ids = [row["hash_ids"] for row in rows(repeat(full, 2))]
    assert ids == [[2, 0], [2, 1], [5, 3], [5, 4]]


def test_prompts_that_leave_no_room_for_a_token_are_an_error_by_default() -> None:
    with pytest.raises(TraceError, match=r"row 1, column prompt_tokens: 70 .*\(2 such rows of 3"):
        too_long(EVERY_COLUMN, 70)
    assert too_long(EVERY_COLUMN, 91) is EVERY_COLUMN


def test_dropping_long_prompts_counts_them() -> None:
    assert too_long(EVERY_COLUMN, 105, TooLong.DROP) is EVERY_COLUMN  # 90 + 12 + (3 + 1 - 1)
    assert [row["prompt_tokens"] for row in rows(too_long(EVERY_COLUMN, 104, TooLong.DROP))] == [
        40,
        70,
    ]
    part = too_long(EVERY_COLUMN, 80, TooLong.DROP)
    assert [row["prompt_tokens"] for row in rows(part)] == [40, 70]
    assert last_step(part)["rows_dropped"] == 1
    with pytest.raises(TraceError, match="none of its 3 requests fits in 40 tokens with its out"):
        too_long(EVERY_COLUMN, 40, TooLong.DROP)


def test_a_cut_prompt_keeps_only_what_still_holds_for_its_head() -> None:
    cut = too_long(EVERY_COLUMN, 56, TooLong.TRUNCATE)
    row = rows(cut)[1]
    assert row["prompt_tokens"] == 55
    assert row["hash_ids"] == [1, 2, 3]  # the block that the cut goes through has no id
    assert row["output_hash_ids"] is None
    assert [item["hash"] for item in row["encoder"]] == [99]
    assert row["remote_kv"]["prefix_tokens"] == row["remote_kv"]["valid_tokens"] == 55
    assert rows(cut)[0] == rows(EVERY_COLUMN)[0]
    assert last_step(cut) == {
        "step": "too_long",
        "max_model_len": 56,
        "action": "truncate",
        "rows_cut": 2,
        "tokens_cut": 15 + 35,
        "encoder_items_dropped": 1,
    }


@given(st.integers(2, 3_000))
@settings(max_examples=30, deadline=None)
def test_truncation_at_any_length_leaves_a_trace_that_passes_every_check(limit: int) -> None:
    cut = too_long(CHATS, limit, TooLong.TRUNCATE)
    old = CHATS.table.column("prompt_tokens").to_pylist()
    assert cut.table.column("prompt_tokens").to_pylist() == [min(n, limit - 1) for n in old]


def test_steps_are_recorded_in_order() -> None:
    trace = scale(thin(slice_trace(CHATS, limit=100), 0.5), "1.5")
    steps = [step["step"] for step in trace.provenance["transforms"]]
    assert steps == ["slice", "thin", "scale"]
    assert trace.provenance["seed"] == 11
