"""Durations as people type them (`8ms`, `0.03ms`, `5m`), exactly, in nanoseconds."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from schedbench.errors import UsageError

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)\s*")


def parse_duration(text: str, option: str) -> int:
    """Nanoseconds of a number with a unit.

    Raises:
        UsageError: no number, no known unit, or a fraction of a nanosecond.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or match[2] not in UNITS_NS:
        raise UsageError(
            f"{option}: {text!r} is no duration; write a number and one of "
            f"{', '.join(UNITS_NS)}, such as 8ms"
        )
    exact = Fraction(Decimal(match[1])) * UNITS_NS[match[2]]
    if exact.denominator != 1:
        raise UsageError(
            f"{option}: {text!r} is a fraction of a nanosecond; the clock counts whole ones"
        )
    return int(exact)
