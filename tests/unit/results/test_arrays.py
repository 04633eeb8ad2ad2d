"""Sums are exact, however large."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.arrays import total

LARGE = st.sampled_from([2**62, 2**43, -(2**43), -(2**63), 2**63 - 1, 5, -5, 0])
OFTEN = st.sampled_from([0, 1, 7, 2**31, 2**40])


@given(st.lists(st.tuples(LARGE, OFTEN)))
def test_a_sum_is_exact_beyond_64_bits(pairs: list[tuple[int, int]]) -> None:
    values, counts = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    assert total(values) == sum(value for value, _ in pairs)
    assert total(values, counts) == sum(value * count for value, count in pairs)
