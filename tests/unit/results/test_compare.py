"""A comparison finds the first pass that differs, tells better from worse, and names who lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.errors import RunStoreError
from schedbench.results.compare import compare, differences
from schedbench.results.comparison_sheets import comparison_view
from schedbench.results.export import as_json
from schedbench.results.stored_run import StoredRun
from schedbench.results.tables import plain_text
from schedbench.results.winners import winners_and_losers

Store = Callable[..., StoredRun]


class Run(Protocol):
    passes: list[dict[str, Any]]


def no_change(_: Run) -> None:
    pass


@pytest.fixture
def store(made_up: Callable[..., Any], tmp_path: Path) -> Store:
    def a_run(
        name: str,
        change: Callable[[Run], None] = no_change,
        *,
        trace: str = "same",
        seats: int = 64,
    ) -> StoredRun:
        run = made_up(5)
        change(run)
        flags = {"policy": "fcfs", "max_num_seqs": seats}
        manifest = {"trace": {"digest": trace}, "scheduler": flags}
        return StoredRun.open(run.stored(tmp_path / name, manifest, {"preempted": 1}))

    return a_run


def later_by_1_ns_from(index: int) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        for row in run.passes[index:]:
            row["start_ns"] += 1

    return change


def other_decisions_from(index: int) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        for row in run.passes[index:]:
            row["decisions"] += 1_000

    return change


def test_a_run_equals_itself(store: Store) -> None:
    comparison = compare([store("a"), store("b")])
    assert comparison.by_decisions == comparison.by_time_only == (None,)
    assert "equal, in decisions and in time" in plain_text(comparison_view(comparison))


def test_the_first_pass_with_other_decisions_is_found_with_both_rows(store: Store) -> None:
    (found,) = compare([store("a"), store("b", other_decisions_from(17))]).by_decisions
    assert found is not None
    assert (found.index, found.columns) == (17, ("decisions",))
    assert found.other["decisions"] == found.first["decisions"] + 1_000


def test_a_pass_that_differs_in_time_only_is_told_apart_from_decisions(store: Store) -> None:
    comparison = compare([store("a"), store("b", later_by_1_ns_from(9))])
    assert comparison.by_decisions == (None,)
    assert comparison.by_time_only[0].index == 9


def test_time_is_compared_only_as_long_as_decisions_are_the_same(store: Store) -> None:
    def change(run: Run) -> None:
        other_decisions_from(4)(run)
        later_by_1_ns_from(9)(run)

    comparison = compare([store("a"), store("b", change)])
    assert comparison.by_decisions[0].index == 4
    assert comparison.by_time_only == (None,)


def test_a_run_that_ends_earlier_differs_at_its_end(store: Store) -> None:
    (found,) = compare([store("a"), store("b", lambda run: run.passes.pop())]).by_decisions
    assert (found.index, found.other) == (39, None)


def test_runs_of_different_traces_are_refused_unless_told(store: Store) -> None:
    runs = [store("a"), store("b", trace="other")]
    with pytest.raises(RunStoreError, match=r"different traces.*--across-traces"):
        compare(runs)
    assert compare(runs, across_traces=True).names == ("a", "b")


def test_flags_that_differ_are_named(store: Store) -> None:
    runs = [store("a"), store("b", seats=128)]
    comparison = compare(runs)
    assert comparison.flags == {"max_num_seqs": (64, 128)}
    assert "max_num_seqs=128" in plain_text(comparison_view(comparison))
    assert '"max_num_seqs"' in as_json(comparison_view(comparison))


def test_less_waiting_and_more_finished_are_better_and_passes_are_neither() -> None:
    first = {"ttft_ns": {"p50": 10}, "requests_finished": 5, "passes": 7, "preempted": 1}
    other = {"ttft_ns": {"p50": 5}, "requests_finished": 4, "passes": 8, "preempted": 1}
    verdicts = {each.metric.key: each.verdicts[0] for each in differences([first, other])}
    assert verdicts == {
        "ttft_ns.p50": "better",
        "requests_finished": "worse",
        "passes": "",
        "preempted": "same",
    }


@given(seeds=st.tuples(st.integers(0, 999), st.integers(0, 999)))
def test_winners_and_losers_are_those_of_a_naive_comparison(
    made_up: Callable[..., Any], seeds: tuple[int, int]
) -> None:
    first, other = (made_up(seed) for seed in seeds)
    found = winners_and_losers(
        first.in_memory().requests.table(), other.in_memory().requests.table(), "e2e_ns", top=3
    )
    deltas = [
        (b["e2e_ns"] - a["e2e_ns"], a["row"])
        for a, b in zip(first.requests, other.requests, strict=True)
        if a["e2e_ns"] is not None and b["e2e_ns"] is not None
    ]
    assert found.faster == sum(delta < 0 for delta, _ in deltas)
    assert found.slower == sum(delta > 0 for delta, _ in deltas)
    assert found.same + found.faster + found.slower == found.delta["n"] == len(deltas)
    won = [row for delta, row in sorted(deltas) if delta < 0][:3]
    lost = [row for delta, row in sorted(deltas, reverse=True) if delta > 0][:3]
    assert [each.row for each in found.winners] == won
    assert [each.row for each in found.losers] == lost
