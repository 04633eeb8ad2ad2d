"""Times become nanoseconds by arithmetic on their digits."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.errors import TraceError, UsageError
from schedbench.workloads.importers.times import DIGITS_TO_NS, JSON_TIME, Clock
from schedbench.workloads.place import Place

PLACE = Place("log")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(clock: Clock, values: pa.Array) -> list[int]:
    return clock.read(pa.chunked_array([values]), "t", PLACE).tolist()


@given(st.sampled_from(sorted(DIGITS_TO_NS)), st.lists(st.integers(0, 2**62), min_size=1))
def test_decimal_text_is_read_to_the_nanosecond(unit: str, expected: list[int]) -> None:
    digits = DIGITS_TO_NS[unit]
    texts = [f"{Decimal(ns).scaleb(-digits):f}" for ns in expected]
    assert read(Clock(unit), pa.array(texts)) == expected
    assert read(Clock(unit), pa.array([Decimal(text) for text in texts])) == expected


@given(st.lists(st.integers(0, 10**15), min_size=1))
def test_binary_fractions_mean_their_shortest_decimal_form(micros: list[int]) -> None:
    expected = [us * 1000 for us in micros]
    seconds = [us / 10**6 for us in micros]  # 15 digits survive a double
    assert read(Clock("s"), pa.array(seconds)) == expected
    assert read(Clock("s"), pa.array([repr(s) for s in seconds])) == expected


def test_digits_below_a_nanosecond_are_rounded_half_to_even_and_counted() -> None:
    clock = Clock("s")
    texts = ["0.0000000005", "0.0000000015", "1e-9", "3", "0.30000000000000004"]
    assert read(clock, pa.array(texts)) == [0, 2, 1, 3_000_000_000, 300_000_000]
    assert clock.rounded == 3
    assert read(clock, pa.array([Decimal("0.0000000025")]).cast(JSON_TIME)) == [2]


@pytest.mark.parametrize("value", ["", "abc", "1:30", "nan", "-inf", "0x10", "1e400", "9" * 20])
def test_what_is_no_number_is_refused_with_its_row(value: str) -> None:
    with pytest.raises(TraceError, match="log: row 1, column t"):
        read(Clock("s"), pa.array(["1", value]))


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.integers(0, 9), st.integers(-839, 839)), min_size=1
    )
)
def test_dates_with_offsets_are_read_to_the_nanosecond(moments: list[tuple[int, int, int]]) -> None:
    texts, expected = [], []
    for ns, digits, offset_minutes in moments:
        seconds, fraction = divmod(ns, 10**9)
        cut = f"{fraction:09d}"[:digits]
        local = EPOCH + timedelta(seconds=seconds, minutes=offset_minutes)
        sign, (hours, minutes) = "-+"[offset_minutes >= 0], divmod(abs(offset_minutes), 60)
        point = f".{cut}" if cut else ""
        texts.append(f"{local:%Y-%m-%d %H:%M:%S}{point}{sign}{hours:02d}:{minutes:02d}")
        expected.append(seconds * 10**9 + int(cut.ljust(9, "0")))
    assert read(Clock("datetime"), pa.array(texts)) == expected


def test_dates_without_a_zone_are_utc_or_in_the_zone_that_is_named() -> None:
    noon = pa.array(["2024-07-01 12:00:00"])
    assert read(Clock("datetime"), noon) == [1_719_835_200 * 10**9]
    assert read(Clock("datetime", "Europe/Berlin"), noon) == [1_719_828_000 * 10**9]


def test_all_dates_of_a_file_state_a_zone_or_none_does() -> None:
    clock = Clock("datetime")
    read(clock, pa.array(["2024-07-01T12:00:00Z"]))
    with pytest.raises(TraceError, match="states no zone, rows before it one"):
        read(clock, pa.array(["2024-07-01T12:00:00"]))
    with pytest.raises(UsageError, match="state their own zone"):
        read(Clock("datetime", "Europe/Berlin"), pa.array(["2024-07-01T12:00:00Z"]))
    with pytest.raises(UsageError, match="no such zone"):
        read(Clock("datetime", "Mars/Olympus"), pa.array(["2024-07-01T12:00:00"]))
