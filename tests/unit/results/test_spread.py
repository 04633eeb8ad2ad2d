"""Percentiles are numpy's, in whole units, and weights mean repetition."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.arrays import ints
from schedbench.results.columns import schema_of
from schedbench.results.part_writer import write_part
from schedbench.results.parts import TableOnDisk
from schedbench.results.pass_log import ITL_COLUMNS
from schedbench.results.spread import SPREAD_KEYS, spread, spreads

TIMES = st.integers(0, 10**16)


def as_ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(st.lists(st.tuples(TIMES, st.integers(0, 9)), max_size=30))
def test_a_weighted_spread_equals_that_of_the_values_written_out(
    gaps: list[tuple[int, int]],
) -> None:
    values, counts = as_ints([v for v, _ in gaps]), as_ints([n for _, n in gaps])
    assert spread(values, counts) == spread(np.repeat(values, counts))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_percentiles_are_those_of_numpy_without_the_fraction(values: list[int]) -> None:
    result = spread(as_ints(values))
    for percent in (50, 90, 99):
        expected = np.percentile(values, percent)
        assert result[f"p{percent}"] == pytest.approx(expected, abs=1)
    assert result["mean"] == sum(values) // len(values)
    assert (result["n"], result["max"]) == (len(values), max(values))


def test_there_are_no_percentiles_of_nothing() -> None:
    nothing = dict.fromkeys(SPREAD_KEYS) | {"n": 0}
    assert spread(as_ints([])) == nothing
    assert spread(as_ints([5]), as_ints([0])) == nothing


def test_a_mean_beyond_64_bits_is_exact() -> None:
    values = as_ints([2**62, 2**62 + 2, 2**62 + 4])
    assert spread(values)["mean"] == 2**62 + 2
    assert spread(values, as_ints([10**6] * 3))["mean"] == 2**62 + 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


FAR_APART = st.one_of(st.integers(0, 3), st.integers(10**9, 10**9 + 40), st.integers(0, 10**16))


@given(st.lists(st.lists(st.tuples(FAR_APART, st.integers(0, 9)), max_size=8), max_size=4))
def test_the_spread_of_a_table_in_parts_is_that_of_its_values_together(
    folder: Path, in_parts: list[list[tuple[int, int]]]
) -> None:
    files = []
    for number, gaps in enumerate(in_parts):
        rows = [{"interval_ns": value, "count": count} for value, count in gaps]
        files.append(folder / f"part-{number}.parquet")
        write_part(files[-1], pa.Table.from_pylist(rows, schema_of(ITL_COLUMNS)))
    table = TableOnDisk(files, ITL_COLUMNS)
    found = spreads(
        table,
        ["interval_ns", "count"],
        lambda part: {
            "weighted": (ints(part, "interval_ns"), ints(part, "count")),
            "each_once": (ints(part, "interval_ns"), None),
        },
    )
    values, counts = (as_ints([gap[at] for gaps in in_parts for gap in gaps]) for at in (0, 1))
    assert found == {"weighted": spread(values, counts), "each_once": spread(values)}
