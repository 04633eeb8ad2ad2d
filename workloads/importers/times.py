"""Source times to integer nanoseconds, by decimal arithmetic on their digits, never floats."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.exact import first_row_where, is_text
from schedbench.workloads.importers.zones import ZonedDates
from schedbench.workloads.place import Place, shown

Nanoseconds = npt.NDArray[np.int64]

DIGITS_TO_NS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Decimal places of each unit that make a nanosecond."""

JSON_TIME = pa.decimal128(38, 18)
"""What a time in JSON is parsed to, so that none of its digits is lost."""

_EPOCH_S = (946_684_800, 4_102_444_800)
"""Unix time of this century's beginning and end."""
_MOST_PER_S = 20_000
_LEAST_ROWS = 20
_COARSEST_NS = 1_000_000
"""Most that neighbouring times may lie apart for want of digits."""

_WIDE = pa.decimal256(76, 40)


@dataclass(slots=True)
class Clock:
    """Reads one file's times, batch after batch, and remembers what kind they are."""

    unit: str
    """s, ms, us, ns; or `datetime`."""
    tz: str | None = None
    rounded: int = 0
    """How many times had digits below a nanosecond."""
    dates: ZonedDates = field(init=False)

    def __post_init__(self) -> None:
        self.dates = ZonedDates(self.tz)

    @property
    def is_wall(self) -> bool:
        return self.unit == "datetime"

    def provenance(self) -> dict[str, str]:
        return {"unit": self.unit, **({"zone": self.dates.zone()} if self.is_wall else {})}

    def told(self) -> str:
        """How times were read, for people to see a wrong guess."""
        names = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
        return self.dates.told() if self.is_wall else names[self.unit]

    def read(self, values: pa.ChunkedArray, column: str, place: Place) -> Nanoseconds:
        """Nanoseconds since 1970 for dates, since the source's own zero for numbers."""
        values = plain_text(values)
        _refuse_coarse_floats(values, self.unit, column, place)
        if values.null_count:
            row = first_row_where(values, lambda part: bool(part.null_count))
            raise place.refuse(row, column, "is missing", "Every request needs a time")
        if self.is_wall:
            return self.dates.read(values, column, place)
        numbers = self.durations(values, column, place)
        place.refuse_where(
            numbers < 0,
            column,
            lambda row: f"{shown(values[row].as_py())} is negative",
            "Time never goes back: correct the row",
        )
        return numbers

    def read_known(
        self, values: pa.ChunkedArray, column: str, place: Place
    ) -> tuple[Nanoseconds, npt.NDArray[np.bool_]]:
        """Of a column with gaps: nanoseconds, 0 in a gap, and which rows have a value."""
        has_value = np.asarray(values.is_valid())
        if not has_value.any():
            return np.zeros(len(values), np.int64), has_value
        some_value = values[int(np.argmax(has_value))]  # keeps rows in place for complaints
        numbers = self.read(pc.fill_null(values, some_value), column, place)
        return np.where(has_value, numbers, 0), has_value

    def durations(self, values: pa.ChunkedArray, column: str, place: Place) -> Nanoseconds:
        """Numbers of the clock's unit, none of them null."""
        digits = DIGITS_TO_NS[self.unit]
        try:
            decimals, rounded = _decimals(values, digits)
        except pa.ArrowException as error:
            row = first_row_where(values, lambda part: not _reads(part, digits))
            found = f"{shown(values[row].as_py())} is not a finite number of {self.unit}"
            remedy = "Correct the row; dates need the unit datetime"
            raise place.refuse(row, column, found, remedy) from error
        self.rounded += rounded
        units, overflow = _unscaled(decimals)
        place.refuse_where(
            overflow,
            column,
            lambda row: f"{shown(values[row].as_py())} {self.unit} is beyond 292 years",
            "Check the unit",
        )
        return units


def plain_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that is stored by its distinct values, as pandas' categories are, by its rows."""
    arrow = values.type
    return values.cast(arrow.value_type) if pa.types.is_dictionary(arrow) else values


def _refuse_coarse_floats(values: pa.ChunkedArray, unit: str, column: str, place: Place) -> None:
    """Raises where a binary fraction has too few digits for its size: neighbours fall together."""
    if not pa.types.is_floating(values.type) or unit not in DIGITS_TO_NS:
        return
    most = pc.max(pc.abs(values)).as_py()
    if not most or not np.isfinite(most):
        return
    step_ns = float(np.spacing(values.type.to_pandas_dtype()(most))) * 10 ** DIGITS_TO_NS[unit]
    if step_ns > _COARSEST_NS:
        found = f"holds {values.type}, which at {shown(most)} {unit} steps by {step_ns / 1e6:g} ms"
        remedy = "Times that differ have become equal: write float64, or take the first time off"
        raise place.refuse_column(column, found, remedy)


def unlikely_unit(clock: Clock, origin_ns: int, arrivals: Nanoseconds) -> str | None:
    """A doubt about the unit that numbers were read in, with the likelier one.

    Numbers that would be this century's Unix time in one other unit are likely that; so are
    arrivals at a rate that no server sees, in the next unit that makes it one.
    """
    if clock.is_wall:
        return None
    scale = 10 ** DIGITS_TO_NS[clock.unit]
    first, span_ns = origin_ns // scale, int(arrivals[-1])
    rate = (len(arrivals) - 1) * 1e9 / span_ns if span_ns else 0.0
    for unit, digits in DIGITS_TO_NS.items():
        is_epoch = _EPOCH_S[0] <= first * 10**digits // 10**9 <= _EPOCH_S[1]
        if is_epoch and unit == clock.unit:
            return None if rate <= _MOST_PER_S else _doubt(clock.unit, f"{rate:,.0f} requests/s")
        if is_epoch:
            return _doubt(clock.unit, f"{first:,} {clock.unit} is the year 1970", unit)
    if rate <= _MOST_PER_S or len(arrivals) < _LEAST_ROWS:
        return None
    slower = [u for u, d in DIGITS_TO_NS.items() if rate * scale / 10**d <= _MOST_PER_S]
    return _doubt(clock.unit, f"{rate:,.0f} requests/s", slower[-1] if slower else None)


def _doubt(unit: str, seen: str, likely: str | None = None) -> str:
    other = f"; they are likely {likely}: --map arrival=NAME:{likely} or --time-unit {likely}"
    return f"times read as {unit} give {seen}{other if likely else '; check the unit'}"


def _decimals(values: pa.ChunkedArray, digits: int) -> tuple[pa.ChunkedArray, int]:
    """Numbers with so many decimals, and how many had to be rounded to that (half to even)."""
    plain = _plain(values)
    try:
        return plain.cast(pa.decimal128(38, digits)), 0
    except pa.ArrowException:
        exact = plain.cast(_WIDE)
    rounded = pc.round(exact, digits, round_mode="half_to_even")
    changed = pc.sum(pc.not_equal(exact, rounded)).as_py() or 0
    return rounded.cast(pa.decimal128(38, digits)), changed


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Digits as text: a binary fraction by its shortest decimal form, as a CSV would hold it."""
    if pa.types.is_floating(values.type):
        return values.cast(pa.string())
    return pc.utf8_trim_whitespace(values) if is_text(values.type) else values


def _reads(values: pa.ChunkedArray, digits: int) -> bool:
    try:
        _decimals(values, digits)
    except pa.ArrowException:
        return False
    return True


def _unscaled(decimals: pa.ChunkedArray) -> tuple[Nanoseconds, npt.NDArray[np.bool_]]:
    """The digits of 128-bit decimals without the point, and which overflow 64 bits."""
    words = [np.empty((0, 2), dtype=np.int64)]
    for chunk in decimals.chunks:
        held = np.frombuffer(chunk.buffers()[1], dtype="<i8").reshape(-1, 2)
        words.append(held[chunk.offset : chunk.offset + len(chunk)])
    low, high = np.concatenate(words).T
    return np.ascontiguousarray(low), high != (low >> 63)
