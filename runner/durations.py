"""Durations as people type them (`8ms`, `0.03ms`, `5m`), exactly, in nanoseconds."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

from schedbench.bounds import INT64_MAX, Bounds, shortened
from schedbench.errors import UsageError

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
ANY: Final = Bounds(0, INT64_MAX)
PASS: Final = Bounds(1, UNITS_NS["h"])
TOKEN: Final = Bounds(0, UNITS_NS["s"])
MOST_DIGITS: Final = 40
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)\s*")


def parse_duration(text: str, option: str, bounds: Bounds = ANY) -> int:
    """Nanoseconds of a number with a unit.

    Raises:
        UsageError: no number, no known unit, a fraction of a nanosecond, or out of bounds.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or match[2] not in UNITS_NS:
        raise UsageError(
            f"{option}: {shortened(text)!r} is no duration; write a number and one of "
            f"{', '.join(UNITS_NS)}, such as 8ms, {in_words(bounds)}"
        )
    if len(match[1]) > MOST_DIGITS:
        raise UsageError(f"{option} is {shortened(text)}: it must be {in_words(bounds)}")
    exact = Fraction(Decimal(match[1])) * UNITS_NS[match[2]]
    if exact not in bounds:
        raise UsageError(f"{option} is {text.strip()}: it must be {in_words(bounds)}")
    if exact.denominator != 1:
        raise UsageError(
            f"{option}: {text!r} is a fraction of a nanosecond; the clock counts whole ones"
        )
    return int(exact)


def in_words(bounds: Bounds) -> str:
    """The bounds of a duration, in units that may be typed."""
    return f"from {_typed(int(bounds.low))} to {_typed(int(bounds.high))}"


def _typed(time_ns: int) -> str:
    unit, size = next(
        (unit, size) for unit, size in reversed(UNITS_NS.items()) if time_ns % size == 0
    )
    return f"{time_ns // size}{unit}" if time_ns else "0s"
