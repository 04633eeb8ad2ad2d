"""Numbers are written as people read them."""

import pytest

from schedbench.results.catalog import Unit
from schedbench.results.units import duration, number, percent, scale_for, signed


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (None, "-"),
        (0, "0.00 ms"),
        (812, "0.81 µs"),
        (8_300_000, "8.30 ms"),
        (85_100_000, "85.1 ms"),
        (12_300_000_000, "12.3 s"),
        (59_940_000_000, "59.9 s"),
        (59_990_000_000, "1m 00s"),
        (3_492_000_000_000, "58m 12s"),
        (11_100_000_000_000, "3h 05m"),
        (187_200_000_000_000, "2d 04h"),
    ],
)
def test_a_time_by_itself_has_the_unit_that_suits_it(value_ns: int | None, text: str) -> None:
    assert duration(value_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (1_234_567, "1,234,567"), (5.504, "5.50"), (1163.7, "1,164")],
)
def test_counts_have_thousands_separated_and_rates_three_digits(
    value: float | None, text: str
) -> None:
    assert number(value) == text


def test_a_small_share_is_not_called_zero() -> None:
    assert [percent(x) for x in (None, 0, 0.0001, 0.104)] == ["-", "0.0 %", "<0.1 %", "10.4 %"]


def test_a_column_of_times_has_one_unit() -> None:
    scale = scale_for(Unit.NS, [70_200_000, 95_000_000, 14_000_000_000])
    assert scale.unit == "ms"
    assert scale.text(14_000_000_000) == "14,000.0"
    assert scale_for(Unit.SHARE, [0.123]).text(0.123) == "12.3"


def test_a_difference_has_its_sign() -> None:
    assert [signed(x) for x in (-2_000_000, 0, 3_000_000_000)] == ["-2.00 ms", "0", "+3.0 s"]
