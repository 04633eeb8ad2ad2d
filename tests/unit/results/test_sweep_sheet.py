"""A sweep's table marks the best values and the front, and keeps what failed in sight."""

import csv
import io
import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.export import as_csv, as_json
from schedbench.results.metrics import summarize
from schedbench.results.sheet import Mark, View
from schedbench.results.sweep_sheet import SweepPoint, binding_limit, pareto_front, sweep_view
from schedbench.results.tables import plain_text
from schedbench.results.without_effect import flags_without_effect

COST = st.integers(0, 5)


def points(made_up: Callable[..., Any]) -> list[SweepPoint]:
    found = []
    for seed in (1, 2, 3):
        run = made_up(seed).in_memory()
        summary = summarize(run.passes.table(), run.requests.table(), run.itl.table())
        found.append(SweepPoint({"max_num_seqs": 64 * seed, "watermark": 0.01}, summary))
    failed = SweepPoint({"max_num_seqs": 1}, None, "request 7 can never be scheduled")
    return [*found, failed]


def test_each_column_with_a_better_direction_marks_its_best(made_up: Callable[..., Any]) -> None:
    swept = points(made_up)
    (sheet,) = sweep_view(swept).sheets
    titles = [heading.title for heading in sheet.headings]
    place = titles.index("TTFT p50 s")
    best = [row[place].mark is Mark.BEST for row in sheet.rows]
    medians = [point.summary["ttft_ns"]["p50"] for point in swept[:3]]
    assert best == [*(value == min(medians) for value in medians), False]


def test_a_point_that_failed_is_a_row_with_its_reason(made_up: Callable[..., Any]) -> None:
    view = sweep_view(points(made_up))
    text = plain_text(view)
    assert "max_num_seqs=1 failed: request 7 can never be scheduled" in text
    assert len(view.sheets[0].rows) == 4


def test_csv_and_json_hold_every_number_of_every_point(made_up: Callable[..., Any]) -> None:
    view = sweep_view(points(made_up))
    rows = list(csv.DictReader(io.StringIO(as_csv(view))))
    assert [row["max_num_seqs"] for row in rows] == ["64", "128", "192", "1"]
    assert [row["failure"] for row in rows] == ["", "", "", "request 7 can never be scheduled"]
    assert float(rows[0]["kv.used_share_max"]) == view.data[0]["summary"]["kv"]["used_share_max"]
    assert '"failure"' in as_json(view)


def test_the_binding_limit_is_the_one_that_bound_for_longest() -> None:
    parts = {
        "nothing": {"passes": 9, "ns": 900},
        "seats": {"passes": 1, "ns": 60},
        "budget": {"passes": 5, "ns": 40},
    }
    assert binding_limit({"binding_limit": parts, "busy_ns": 1000}) == "seats 6.0 %"
    assert binding_limit({"binding_limit": {}, "busy_ns": 0}) == "nothing"


def test_a_limit_that_sets_requests_aside_comes_first_where_most_waiting_is_for_it() -> None:
    parts = {"budget": {"passes": 9, "ns": 50}, "nothing": {"passes": 91, "ns": 950}}
    summary = {"binding_limit": parts, "busy_ns": 1000}
    waits = {"lora_slots_full_ns": 900, "budget_spent_ns": 100}
    assert binding_limit({**summary, "waits": waits}) == "loras 90.0 % of waiting"
    waits = {"budget_spent_ns": 900, "lora_slots_full_ns": 100}
    assert binding_limit({**summary, "waits": waits}) == "budget 5.0 %"
    waits = {"encoder_set_aside_ns": 40, "budget_spent_ns": 1}
    assert binding_limit({**summary, "waits": waits}) == "budget 5.0 %"


@given(st.lists(st.tuples(COST, COST, COST), min_size=1, max_size=8))
def test_the_front_holds_exactly_the_points_that_no_other_beats(
    trade_offs: list[tuple[int, int, int]],
) -> None:
    def beats(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
        return a != b and a[0] <= b[0] and a[1] <= b[1] and a[2] >= b[2]

    expected = [not any(beats(other, each) for other in trade_offs) for each in trade_offs]
    assert pareto_front(trade_offs) == expected
    assert any(expected)


def test_points_that_fail_for_the_same_reason_are_told_of_once() -> None:
    reasons = ("too small", "too small", "stalled", "too small")
    points = [SweepPoint({"max_num_seqs": n}, None, why) for n, why in enumerate(reasons)]
    assert sweep_view(points).warnings == (
        "max_num_seqs=0 and 2 others failed: too small",
        "max_num_seqs=2 failed: stalled",
    )


def test_a_flag_makes_no_difference_where_it_makes_none_whatever_the_others_are() -> None:
    def swept(seats_matter_at: int | None) -> View:
        points = []
        for seats, blocks in itertools.product((32, 64), (100, 200)):
            preempted = 1000 // blocks + (seats if blocks == seats_matter_at else 0)
            summary = {"preempted": preempted, "passes": 7, "binding_limit": {}, "busy_ns": 1}
            summary["kv"] = {"blocks": blocks, "used_share_max": 50 / blocks}
            points.append(SweepPoint({"max-num-seqs": seats, "num-gpu-blocks": blocks}, summary))
        return sweep_view(points)

    idle, busy = swept(None), swept(200)
    line = "--max-num-seqs made no difference: all its values gave the same decisions and times"
    assert line in " ".join(idle.sheets[0].note.split("\n"))
    assert all(each["flags_without_effect"] == ["max-num-seqs"] for each in idle.data)
    assert "made no difference" not in busy.sheets[0].note
    assert all(each["flags_without_effect"] == [] for each in busy.data)


def test_a_flag_is_not_said_to_make_no_difference_where_points_are_missing_or_have_no_result() -> (
    None
):
    summary = {"preempted": 0, "binding_limit": {}, "busy_ns": 1}
    grid = [SweepPoint({"a": a, "b": b}, summary) for a in (1, 2) for b in (1, 2)]
    assert flags_without_effect(grid) == ["a", "b"]
    assert flags_without_effect(grid[:-1]) == []
    assert flags_without_effect([*grid[:-1], SweepPoint(grid[-1].flags, None, "stalled")]) == []
    failed = [SweepPoint(point.flags, None, "too small") for point in grid]
    assert flags_without_effect(failed) == []
    assert sweep_view(failed).sheets[0].note == ""
