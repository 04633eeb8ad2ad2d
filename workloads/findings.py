"""What looks wrong with a trace, though it breaks no rule: each with its number and a remedy."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from schedbench.workloads.arrays import required
from schedbench.workloads.arrival_profile import NS_PER_S, ArrivalProfile
from schedbench.workloads.place import listed, shown
from schedbench.workloads.trace import Trace

Integers = npt.NDArray[np.integer[Any]]

_HEAD_RATE = 0.1  # of the median window's: a quieter head says nothing about load
_HEAD_WINDOWS = 3
_TICK_REPEATS = 0.05  # of rows at the instant of the row before: the clock is too coarse
_LEAST_TICK_NS = 1_000_000  # finer clocks make no bursts
_GAP_MEANS = 100  # of the mean gap; gamma arrivals with a CV of 3 stay below it
_GAP_SHARE = 0.01  # of the duration
_PILE_FROM, _PILE_BESIDE = 0.99, 0.95  # of the greatest length
_PILE_SHARE, _PILE_ROWS = 0.005, 10  # of requests, and in number, at least
_PILE_TOP = 100  # tokens; below it a percent is not a token
_NAMED_ROWS = 5
_YEAR_NS = 365 * 86_400 * NS_PER_S


class Oddity(StrEnum):
    ROWS_CHANGED = "rows_changed"
    UNKNOWN_COLUMNS = "unknown_columns"
    UNLIKELY_UNIT = "unlikely_unit"
    ALL_AT_ONCE = "all_at_once"
    LOW_RATE_HEAD = "low_rate_head"
    COARSE_TICK = "coarse_tick"
    HUGE_GAP = "huge_gap"
    SPANS_YEARS = "spans_years"
    DUPLICATE_ROWS = "duplicate_rows"
    LENGTHS_PILE_UP = "lengths_pile_up"
    PROMPTS_TOO_LONG = "prompts_too_long"
    CONTEXT_PASSED = "context_passed"


@dataclass(frozen=True, slots=True)
class Finding:
    oddity: Oddity
    rows: int  # how many requests it concerns
    text: str
    first_rows: tuple[int, ...] = ()  # of the trace, from 0 on; empty where the text says it

    @property
    def where(self) -> str:
        """The rows by number, as far as they are named."""
        if not self.first_rows:
            return ""
        listed = ", ".join(map(str, self.first_rows))
        more = self.rows - len(self.first_rows)
        named = f"row{'s'[: self.rows != 1]} {listed}"
        return f"{named} and {more:,} more" if more else named


def find_oddities(
    trace: Trace, profile: ArrivalProfile, max_model_len: int | None
) -> Iterator[Finding]:
    yield from _about_file(trace)
    yield from _about_time(trace, profile)
    yield from _about_rows(trace)
    if max_model_len is not None:
        yield from _about_context(trace, max_model_len)


def _about_file(trace: Trace) -> Iterator[Finding]:
    rows = trace.num_requests
    if trace.stored_digest not in {None, trace.digest}:
        text = (
            f"the file states the digest {shown(trace.stored_digest)}, its rows have "
            f"{trace.digest}: they were changed after writing"
        )
        yield Finding(Oddity.ROWS_CHANGED, rows, text)
    if unknown := trace.unknown_columns:
        text = f"columns outside the schema, without effect on a replay: {listed(unknown)}"
        yield Finding(Oddity.UNKNOWN_COLUMNS, rows, text)
    for doubt in trace.provenance.get("doubts", ()):
        yield Finding(Oddity.UNLIKELY_UNIT, rows, str(doubt))


def _about_time(trace: Trace, profile: ArrivalProfile) -> Iterator[Finding]:
    rows = trace.num_requests
    if profile.duration_ns == 0:
        if rows > 1:
            yield Finding(Oddity.ALL_AT_ONCE, rows, f"all {rows:,} requests arrive at time 0")
        return
    yield from _low_rate_head(profile)
    repeats = profile.same_instant / rows
    tick = profile.tick_ns or 0
    if repeats > _TICK_REPEATS and tick >= _LEAST_TICK_NS:
        yield Finding(
            Oddity.COARSE_TICK,
            profile.same_instant,
            f"{100 * repeats:.1f} % of requests share their instant with the one before; arrivals "
            f"step by {tick / NS_PER_S:g} s, so bursts may be the clock's: import with --spread",
        )
    yield from _huge_gap(trace, profile)
    if profile.duration_ns > _YEAR_NS:
        years = profile.duration_ns / _YEAR_NS
        text = f"lasts {years:.1f} years: are two clocks mixed, or is the time unit wrong?"
        yield Finding(Oddity.SPANS_YEARS, rows, text)


def _low_rate_head(profile: ArrivalProfile) -> Iterator[Finding]:
    """The windows at the start with hardly any arrivals, against the median window that has some.

    No flag matters while a server idles, so a comparison on such a head ends in a tie.
    """
    counts = profile.counts
    busy = float(np.median(counts[counts > 0]))
    quiet = counts < _HEAD_RATE * busy
    head = int(np.argmin(quiet)) if not quiet.all() else 0
    if head < _HEAD_WINDOWS:
        return
    seconds = head * profile.window_ns / NS_PER_S
    rates = (counts[:head].sum() / seconds, busy * NS_PER_S / profile.window_ns)
    yield Finding(
        Oddity.LOW_RATE_HEAD,
        int(counts[:head].sum()),
        f"the first {seconds:.0f} s see {rates[0]:.3g} requests a second, later windows "
        f"{rates[1]:.3g}: no limit binds there; use --from {seconds:.0f}s",
    )


def _huge_gap(trace: Trace, profile: ArrivalProfile) -> Iterator[Finding]:
    if profile.gaps_ns is None:
        return
    longest = profile.gaps_ns.max
    if longest <= max(_GAP_MEANS * profile.gaps_ns.mean, _GAP_SHARE * profile.duration_ns):
        return
    row = int(np.argmax(np.diff(np.sort(required(trace.table, "arrival_ns"))))) + 1
    text = (
        f"nothing arrives for {longest / NS_PER_S:.1f} s before row {row}, "
        f"{longest / profile.gaps_ns.mean:.0f} times the mean gap: an outage of the source?"
    )
    yield Finding(Oddity.HUGE_GAP, 1, text)


def _about_rows(trace: Trace) -> Iterator[Finding]:
    same = np.ones(trace.num_requests - 1, dtype=np.bool_)
    for name in ("arrival_ns", "prompt_tokens", "output_tokens"):
        same &= np.diff(required(trace.table, name)) == 0
    if same.any():
        rows = int(np.count_nonzero(same))
        text = f"{rows:,} rows equal the row before in time and both lengths: logged twice?"
        yield Finding(Oddity.DUPLICATE_ROWS, rows, text, _first(np.append(False, same)))
    for name in ("prompt_tokens", "output_tokens"):
        yield from _pile_up(name, required(trace.table, name))


def _pile_up(name: str, values: Integers) -> Iterator[Finding]:
    """Many lengths in the last percent below the greatest, few before it: no tail falls like so."""
    top = int(values.max())
    piled = values >= _PILE_FROM * top
    rows = int(np.count_nonzero(piled))
    before = int(np.count_nonzero(values >= _PILE_BESIDE * top)) - rows
    least = max(_PILE_ROWS, _PILE_SHARE * values.size, 2 * before)
    if rows <= least or top < _PILE_TOP or values.min() >= _PILE_FROM * top:
        return
    text = f"{rows:,} requests have {name} within 1 % of {top:,}, the most: cut by the source?"
    yield Finding(Oddity.LENGTHS_PILE_UP, rows, text, _first(piled))


def _about_context(trace: Trace, max_model_len: int) -> Iterator[Finding]:
    """A prompt of max_model_len is refused, as in vLLM: one output token must fit behind it."""
    prompt = required(trace.table, "prompt_tokens").astype(np.int64)
    too_long = prompt >= max_model_len
    if count := int(np.count_nonzero(too_long)):
        text = (
            f"{count:,} {'prompt leaves' if count == 1 else 'prompts leave'} no room for an output "
            f"token in {max_model_len:,}: "
            "use --too-long drop|truncate"
        )
        yield Finding(Oddity.PROMPTS_TOO_LONG, count, text, _first(too_long))
    total = prompt + required(trace.table, "output_tokens")
    passed = ~too_long & (total > max_model_len)
    if count := int(np.count_nonzero(passed)):
        passes = "output passes" if count == 1 else "outputs pass"
        text = (
            f"{count:,} {passes} {max_model_len:,} tokens and will end there, as in vLLM, or are "
            "left out by --too-long drop"
        )
        yield Finding(Oddity.CONTEXT_PASSED, count, text, _first(passed))


def _first(chosen: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(row) for row in np.flatnonzero(chosen)[:_NAMED_ROWS])
