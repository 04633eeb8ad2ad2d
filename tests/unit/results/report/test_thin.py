"""Thinning keeps every peak, and what one choice holds the finer ones hold too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.report import thin
from schedbench.results.report.thin import LEFT_OUT, ranked

NOTHING = np.zeros(0, dtype=np.int64)


def noise(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 10**6, n)


@given(st.integers(0, 50), st.integers(5_000, 20_000))
def test_every_choice_holds_the_highest_and_the_lowest_value_of_every_series(
    seed: int, n: int
) -> None:
    series = [noise(seed, n), noise(seed + 1, n)]
    ranks = ranked(np.arange(n), series, [], most=n // 2)
    for rank in range(int(ranks[ranks != LEFT_OUT].max()) + 1):
        held = ranks <= rank
        for values in series:
            assert values[held].max() == values.max()
            assert values[held].min() == values.min()


def test_a_single_peak_is_kept_wherever_it_stands() -> None:
    for place in (0, 1, 4_321, 49_998, 49_999):
        values = np.ones(50_000, dtype=np.int64)
        values[place] = 7
        assert ranked(np.arange(50_000), [values], [], most=5_000)[place] == 0


@given(st.integers(0, 50), st.integers(1, 9_000))
def test_no_more_than_asked_for_are_held_and_all_where_there_are_no_more(seed: int, n: int) -> None:
    everything = ranked(np.arange(n), [noise(seed, n)], [], most=n)
    assert (everything != LEFT_OUT).all()
    some = ranked(np.arange(n), [noise(seed, n)], [], most=max(thin.COARSEST + 2, n // 2))
    assert (some != LEFT_OUT).sum() <= max(thin.COARSEST + 2, n // 2)


def test_kept_passes_are_in_their_choice() -> None:
    first, second = np.asarray([77]), np.asarray([99])
    ranks = ranked(np.arange(9_000), [np.ones(9_000, dtype=np.int64)], [first, second], most=4_000)
    assert (ranks[77], ranks[99]) == (0, 1)


def test_no_pass_at_all_is_no_fault() -> None:
    assert ranked(NOTHING, [], [], most=10).size == 0


def test_the_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tsdownsample", None)
    with pytest.raises(thin.UsageError, match=r"pip install '.\[report\]'"):
        thin.thinned(np.arange(10), np.arange(10), 4)
