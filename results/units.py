"""Numbers as people read them: thousands separated, a unit that suits the size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from schedbench.results.catalog import Unit

NOTHING: Final = "-"
"""What stands for a number that there is none of."""

_SECONDS_FROM_NS: Final = 10**9
_MICROSECONDS_BELOW_NS: Final = 10**5
_NANOSECONDS_BELOW_NS = 100
_TWO_DECIMALS_BELOW: Final = 10
_ONE_DECIMAL_BELOW: Final = 1000
_SMALLEST_SHOWN: Final = 0.0005  # what rounds to 0.1 %
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit for a whole row or column, so that its numbers can be compared by eye."""

    unit: str
    divisor: float
    decimals: int

    def text(self, value: float | None) -> str:
        return NOTHING if value is None else f"{value / self.divisor:,.{self.decimals}f}"


def time_scale(values_ns: Iterable[float | None]) -> Scale:
    """By the middle of the values: microseconds, milliseconds or seconds."""
    known = sorted(value for value in values_ns if value)
    middle = known[len(known) // 2] if known else 10**6
    if middle >= _SECONDS_FROM_NS:
        return Scale("s", 1e9, 2)
    if middle < _NANOSECONDS_BELOW_NS:
        return Scale("ns", 1, 0 if float(middle).is_integer() else 1)
    if middle < _MICROSECONDS_BELOW_NS:
        return Scale("µs", 1e3, 2)
    return Scale("ms", 1e6, 2 if middle < _TWO_DECIMALS_BELOW * 1e6 else 1)


def scale_for(unit: Unit, values: Sequence[float | None]) -> Scale:
    """The scale of a row or a column of values of one metric."""
    match unit:
        case Unit.NS:
            return time_scale(values)
        case Unit.SHARE:
            return Scale("%", 0.01, 1)
    if all(value is None or float(value).is_integer() for value in values):
        return Scale(unit.value, 1, 0)
    highest = max((abs(value) for value in values if value is not None), default=0)
    return Scale(unit.value, 1, _decimals(highest))


def number(value: float | None) -> str:
    """A count, or a rate with three digits or more."""
    if value is None:
        return NOTHING
    return f"{value:,.{0 if float(value).is_integer() else _decimals(abs(value))}f}"


def percent(share: float | None) -> str:
    """A share in percent; a small one is not called zero."""
    if share is None:
        return NOTHING
    return "<0.1 %" if 0 < share < _SMALLEST_SHOWN else f"{share * 100:,.1f} %"


def duration(value_ns: float | None) -> str:
    """A time by itself: 850 ms, 12.3 s, 58m 12s, 3h 05m, 2d 04h."""
    if value_ns is None:
        return NOTHING
    seconds = value_ns / 1e9
    if round(seconds, 1) < _MINUTE:
        scale = time_scale([value_ns]) if seconds < 1 else Scale("s", 1e9, 1)
        return f"{scale.text(value_ns)} {scale.unit}"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR:02d}h"


def signed(value_ns: float | None) -> str:
    """A difference of times, with its sign."""
    if value_ns is None:
        return NOTHING
    return f"{'-' if value_ns < 0 else '+'}{duration(abs(value_ns))}" if value_ns else "0"


def _decimals(value: float) -> int:
    if value < _TWO_DECIMALS_BELOW:
        return 2
    return 1 if value < _ONE_DECIMAL_BELOW else 0
