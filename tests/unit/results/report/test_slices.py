"""Slices of time add up, and passes end when the one before them lets them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.report.slices import Slices, ends, span_of

PASSES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=40
)


def columns(passes: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gaps, durations, values = np.asarray(passes, dtype=np.int64).T
    return np.cumsum(gaps), durations, values


@given(PASSES)
def test_a_pass_begins_when_the_one_before_is_done(passes: list[tuple[int, int, int]]) -> None:
    start, duration, _ = columns(passes)
    expected, last = [], 0
    for begun, took in zip(start.tolist(), duration.tolist(), strict=True):
        last = max(begun, last) + took
        expected.append(last)
    assert ends(start, duration).tolist() == expected


@given(PASSES, st.integers(1, 20))
def test_sums_over_slices_add_up_to_the_whole(
    passes: list[tuple[int, int, int]], count: int
) -> None:
    start, duration, values = columns(passes)
    slices = Slices.over(start, duration, count)
    assert slices.passes.sum() == len(passes)
    assert slices.sums(values).sum() == values.sum()


@given(PASSES, st.integers(1, 20))
def test_the_highest_value_is_the_highest_of_some_slice(
    passes: list[tuple[int, int, int]], count: int
) -> None:
    start, duration, values = columns(passes)
    assert Slices.over(start, duration, count).highest(values).max() == values.max()


def test_a_pass_that_goes_on_is_seen_in_the_slices_it_reaches() -> None:
    start, duration = np.asarray([0, 90]), np.asarray([50, 10])
    slices = Slices.over(start, duration, 10)
    assert slices.means(np.asarray([4, 6])).tolist() == [4, 4, 4, 4, 4, 0, 0, 0, 0, 6]


def test_runs_of_different_length_share_one_span() -> None:
    short = np.asarray([10]), np.asarray([5])
    long = np.asarray([20, 30]), np.asarray([10, 70])
    assert span_of([short, long]) == (10, 100)
