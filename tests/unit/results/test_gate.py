"""A gate passes exactly where nothing changed, and narrows a change down to a few passes."""

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.errors import RunStoreError
from schedbench.results.gate import GateResult, Status, check, make_baseline
from schedbench.results.gate_report import gate_view, junit
from schedbench.results.metrics import summarize
from schedbench.results.tables import plain_text

TRACE = {"digest": "abc"}
FLAGS = {"max_num_seqs": 64}


def tables(run: Any) -> tuple[Any, ...]:  # noqa: ANN401 (a made-up run)
    memory = run.in_memory()
    passes, requests = memory.passes.table(), memory.requests.table()
    return summarize(passes, requests, memory.itl.table()), passes, requests


def gate(first: Any, other: Any) -> GateResult:  # noqa: ANN401 (made-up runs)
    baseline = make_baseline(*tables(first), trace=TRACE, flags=FLAGS)
    stored = orjson.loads(orjson.dumps(baseline))
    return check(stored, *tables(other), trace=TRACE, flags=FLAGS)


@given(seed=st.integers(0, 999), passes=st.integers(0, 130))
def test_a_run_passes_its_own_baseline(made_up: Callable[..., Any], seed: int, passes: int) -> None:
    result = gate(made_up(seed, passes=passes), made_up(seed, passes=passes))
    assert result.passed
    assert result.window is None


@given(changed=st.integers(0, 129))
def test_a_changed_decision_fails_and_lies_in_the_window(
    made_up: Callable[..., Any], changed: int
) -> None:
    first, other = made_up(5, passes=130), made_up(5, passes=130)
    for row in other.passes[changed:]:
        row["decisions"] += 1
    result = gate(first, other)
    assert [each.key for each in result.checks if each.failed] == ["digests.passes"]
    begin, end = result.window
    assert begin <= changed < end
    assert end - begin <= 3


def test_a_run_that_ends_earlier_or_later_differs_at_its_end(made_up: Callable[..., Any]) -> None:
    longer, shorter = made_up(5, passes=130), made_up(5, passes=130)
    shorter.passes.pop()
    assert gate(longer, shorter).window == (129, 130)
    assert gate(shorter, longer).window == (129, 130)


def test_one_more_preemption_fails_by_its_name(made_up: Callable[..., Any]) -> None:
    first, other = made_up(5), made_up(5)
    other.passes[3]["preempted"] += 1
    result = gate(first, other)
    assert {each.key for each in result.checks if each.failed} == {"preempted", "digests.passes"}
    assert "preempted" in plain_text(gate_view("sample", result))
    failures = ET.fromstring(junit("sample", result)).iter("failure")  # noqa: S314 (our own)
    assert len(list(failures)) == 2


@pytest.mark.parametrize(
    ("factor", "status"), [(1.005, Status.OK), (1.02, Status.WORSE), (0.98, Status.BETTER)]
)
def test_times_may_vary_within_their_tolerance_and_fail_only_for_the_worse(
    made_up: Callable[..., Any], factor: float, status: Status
) -> None:
    first, other = made_up(5), made_up(5)
    for row in other.requests:
        if row["ttft_ns"] is not None:
            row["ttft_ns"] = round(row["ttft_ns"] * factor)
    result = gate(first, other)
    found = {each.key: each.status for each in result.checks}
    assert found["ttft_ns.p50"] is status
    assert result.passed == (status is not Status.WORSE)


def test_another_trace_or_other_flags_are_refused_by_name(made_up: Callable[..., Any]) -> None:
    run = made_up(5)
    baseline = make_baseline(*tables(run), trace=TRACE, flags=FLAGS)
    with pytest.raises(RunStoreError, match=r"digest abc.*--update"):
        check(baseline, *tables(run), trace={"digest": "x"}, flags=FLAGS)
    with pytest.raises(
        RunStoreError, match=r"--max-num-seqs is 64 in the baseline and 128 here.*--update"
    ):
        check(baseline, *tables(run), trace=TRACE, flags={"max_num_seqs": 128})
    with pytest.raises(RunStoreError, match="version 9"):
        check(baseline | {"baseline_version": 9}, *tables(run), trace=TRACE, flags=FLAGS)
