"""Packed columns come back as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_columns import unpacked

from schedbench.results.report.pack import EXACT_BELOW, packed

WHOLE = st.integers(-(2**50), 2**50)


@given(st.lists(st.tuples(WHOLE, st.integers(0, 3)), max_size=30))
def test_columns_come_back_as_they_were(rows: list[tuple[int, int]]) -> None:
    columns = {
        "wide": np.asarray([wide for wide, _ in rows], dtype=np.int64),
        "narrow": np.asarray([narrow for _, narrow in rows], dtype=np.int64),
    }
    expected = {name: values.tolist() for name, values in columns.items()}
    assert unpacked(packed(columns)) == expected


def test_a_column_of_zeros_takes_no_bytes() -> None:
    assert packed({"zeros": np.zeros(9, dtype=np.int64)})["columns"] == [["zeros", 0]]


def test_a_step_that_a_browser_cannot_count_is_refused() -> None:
    with pytest.raises(OverflowError, match="more than a browser counts"):
        packed({"far": np.asarray([0, EXACT_BELOW], dtype=np.int64)})
