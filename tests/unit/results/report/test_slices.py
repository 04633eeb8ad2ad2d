"""Slices of time add up to the whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.report.slices import Slices, span_of

PASSES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=40
)


def columns(passes: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gaps, durations, values = np.asarray(passes, dtype=np.int64).T
    start = np.cumsum(gaps)
    return start, np.maximum.accumulate(start + durations), values


@given(PASSES, st.integers(1, 20))
def test_sums_over_slices_add_up_to_the_whole(
    passes: list[tuple[int, int, int]], count: int
) -> None:
    start, end, values = columns(passes)
    slices = Slices.over(start, end, count)
    assert slices.passes.sum() == len(passes)
    assert slices.sums(values).sum() == values.sum()


@given(PASSES, st.integers(1, 20))
def test_the_highest_value_is_the_highest_of_some_slice(
    passes: list[tuple[int, int, int]], count: int
) -> None:
    start, end, values = columns(passes)
    assert Slices.over(start, end, count).highest(values).max() == values.max()


def test_a_pass_that_goes_on_is_seen_in_the_slices_it_reaches() -> None:
    start, end = np.asarray([0, 90]), np.asarray([50, 100])
    slices = Slices.over(start, end, 10)
    assert slices.means(np.asarray([4, 6])).tolist() == [4, 4, 4, 4, 4, 0, 0, 0, 0, 6]


def test_runs_of_different_length_share_one_span() -> None:
    short = np.asarray([10]), np.asarray([15])
    long = np.asarray([20, 30]), np.asarray([30, 100])
    assert span_of([short, long]) == (10, 100)
