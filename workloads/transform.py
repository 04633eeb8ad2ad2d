"""Trace -> trace: slice, scale, thin. Each records itself in provenance["transforms"].

Time is cut, never invented: what is left begins at 0 again, and `epoch_ns` moves along. Repeating
stands in `repeat`, prompts beyond a model's context in `too_long`.
"""

from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np
import pyarrow as pa

from schedbench.bounds import PART, Bounds, shortened
from schedbench.errors import UsageError
from schedbench.workloads.arrays import Integers, integers, required
from schedbench.workloads.generators.draws import Draws, Stream
from schedbench.workloads.rows import keep_rows, known_rows, replace_column
from schedbench.workloads.trace import Trace

_LATEST_NS = 2**63 - 1
SPEEDUP = Bounds(0.000001, 1_000_000)
MOST_DIGITS = 40
_SECOND_NS = 1_000_000_000
_UNITS_NS = {
    "h": 3600 * _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "s": _SECOND_NS,
    "ms": 10**6,
    "us": 10**3,
}


def slice_trace(
    trace: Trace, *, from_ns: int | None = None, to_ns: int | None = None, limit: int | None = None
) -> Trace:
    """The requests that arrive in [from_ns, to_ns), and of those the first `limit`.

    Raises UsageError for an empty window, and for a limit beyond what the window holds: rows are
    never made up to reach it.
    """
    arrivals = required(trace.table, "arrival_ns")
    keep = np.ones(trace.num_requests, dtype=np.bool_)
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise UsageError(
            f"--from {_time_text(from_ns)} is not before --to {_time_text(to_ns)}: a window runs "
            "from the first to before the second"
        )
    if from_ns is not None:
        keep &= arrivals >= from_ns
    if to_ns is not None:
        keep &= arrivals < to_ns
    held = int(np.count_nonzero(keep))
    if not held:
        until = "on" if to_ns is None else f"to before {_time_text(to_ns)}"
        raise UsageError(
            f"no request arrives from {_time_text(from_ns or 0)} {until}; the trace's arrivals go "
            f"from 0 to {arrivals.max() / _SECOND_NS:.9g}s, so take a window within"
        )
    if limit is not None:
        if not 1 <= limit <= held:
            raise UsageError(f"--limit {limit}: the window holds {held} requests; use 1 to {held}")
        keep[np.flatnonzero(keep)[limit:]] = False
    return keep_rows(trace, keep, {"step": "slice", **_given(from_ns, to_ns, limit)})


def _time_text(time_ns: int) -> str:
    """A point in time as it may be typed, exactly, in its largest unit without a fraction."""
    for unit, size in _UNITS_NS.items():
        if time_ns and time_ns % size == 0:
            return f"{time_ns // size}{unit}"
    return f"{time_ns}ns" if time_ns else "0s"


def _given(from_ns: int | None, to_ns: int | None, limit: int | None) -> dict[str, int]:
    options = {"from_ns": from_ns, "to_ns": to_ns, "limit": limit}
    return {name: value for name, value in options.items() if value is not None}


def scale(trace: Trace, speedup: str | float | Fraction, *, think: bool = False) -> Trace:
    """The same requests `speedup` times as fast: every arrival becomes floor(arrival / speedup).

    Exact for any decimal: "1.1" is 11/10, not the nearest float. Only points in time are scaled
    (`arrival_ns`, `added_ns`). Durations belong to people and machines, not to the load, and stay:
    `abort_after_ns`, delays of chunks, grammars and remote KV, and `think_ns` unless `think` says
    otherwise.
    """
    factor = parse_speedup(speedup)
    names = ["arrival_ns", "added_ns", *(["think_ns"] if think else [])]
    scaled = [name for name in names if trace.has(name)]
    table = trace.table
    for name in scaled:
        times = divided(required(table, name), factor)
        table = replace_column(table, name, pa.array(times, mask=~known_rows(table, name)))
    return trace.with_table(table, {"step": "scale", "speedup": str(factor), "columns": scaled})


def parse_speedup(speedup: str | float | Fraction) -> Fraction:
    """Exactly "2", "1.5" or "3/2"; floats count as the decimal that they print as."""
    text = str(speedup).strip()
    try:
        # Looked at as a decimal first: as a fraction 1e999999999 would have as many digits.
        near = Fraction(text[:MOST_DIGITS]) if "/" in text else Decimal(text)
        is_number = not near.is_nan() if isinstance(near, Decimal) else len(text) <= MOST_DIGITS
    except (ValueError, ZeroDivisionError, InvalidOperation):
        is_number = False
    if not is_number:
        raise UsageError(
            f"--speedup: {shortened(text)!r} is not a number {SPEEDUP}, such as 2 or 1.5"
        )
    if not SPEEDUP.low <= near <= SPEEDUP.high:
        raise UsageError(
            f"--speedup is {shortened(text)}: it must be {SPEEDUP}; 2 means twice as fast"
        )
    return Fraction(text)


def divided(times: Integers, factor: Fraction) -> Integers:
    """floor(t / (p / q)) in 64-bit integers: with t = a p + r it is a q + floor(r q / p)."""
    p, q = factor.numerator, factor.denominator
    if p * q > _LATEST_NS:
        raise UsageError(f"speedup {factor} has too many digits; use at most 9")
    if int(times.max(initial=0)) * q // p > _LATEST_NS:
        raise UsageError(f"speedup {factor} stretches the trace beyond 2^63 ns, 292 years")
    whole, rest = np.divmod(times.astype(np.int64), p)
    return np.asarray(whole * q + rest * q // p)


def thin(trace: Trace, fraction: float, seed: int = 0) -> Trace:
    """A random part of the traffic: each session, or row without one, stays with this chance.

    Sessions stay whole, since half a conversation is another workload. With one seed, a smaller
    fraction keeps a subset of what a larger one keeps.
    """
    PART.check(fraction, "--thin")
    chance = Draws(seed, Stream.THIN, 0).uniform(trace.num_requests)
    session = integers(trace.table, "session")
    if session is not None:
        of = np.unique(session, return_inverse=True)[1]
        by_session = Draws(seed, Stream.THIN, 1).uniform(int(of.max()) + 1)[of]
        chance = np.where(known_rows(trace.table, "session"), by_session, chance)
    keep = chance <= fraction
    if not keep.any():
        raise UsageError(f"thin: nothing is left of {trace.num_requests} requests at {fraction}")
    return keep_rows(trace, keep, {"step": "thin", "fraction": fraction, "seed": seed})
