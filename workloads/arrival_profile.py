"""Arrivals over time: rate, burstiness, the clock's tick."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schedbench.workloads.spread import Spread, spread

Times = npt.NDArray[np.integer[Any]]

NS_PER_S = 1_000_000_000
PROFILE_WINDOWS = 60
_DISPERSION_WINDOWS_NS = (NS_PER_S, 10 * NS_PER_S, 60 * NS_PER_S)
_LEAST_WINDOWS = 10  # fewer say nothing about a variance
_LEAST_WITH_DECIMALS, _TWO_DECIMALS_BELOW, _ONE_DECIMAL_BELOW = 0.1, 10, 1000  # of a rate
_TICK_SLACK = 0.01  # of a tick: what a clock may jitter
_TICK_SHARE = 0.95  # of the gaps must be whole ticks


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Variance over mean of the arrivals per window; 1 for Poisson, more is burstier."""

    window_ns: int
    windows: int
    index: float


@dataclass(frozen=True, slots=True)
class ArrivalProfile:
    """`counts` are arrivals per window of `window_ns`, over the whole trace."""

    duration_ns: int
    rate_per_s: float | None
    gaps_ns: Spread | None
    gap_cv: float | None
    dispersion: tuple[Dispersion, ...]
    tick_ns: int | None
    same_instant: int
    window_ns: int
    counts: npt.NDArray[np.int64]


def arrival_rate(requests: int, span_ns: int) -> float | None:
    """Requests a second, of gaps between arrivals; None where there are no two instants."""
    return (requests - 1) * NS_PER_S / span_ns if span_ns else None


def rate_text(rate: float) -> str:
    """As it is told of a trace everywhere: three digits, or all of a whole number."""
    if rate < _LEAST_WITH_DECIMALS:
        return f"{rate:.2g} requests/s"
    decimals = 2 if rate < _TWO_DECIMALS_BELOW else 1 if rate < _ONE_DECIMAL_BELOW else 0
    return f"{rate:,.{0 if rate.is_integer() else decimals}f} requests/s"


def profile_arrivals(arrivals: Times) -> ArrivalProfile:
    """Arrivals are sorted and begin at 0. Rate and CV are None where there are no two instants."""
    duration = int(arrivals[-1])
    gaps = np.diff(arrivals)
    window = duration // PROFILE_WINDOWS + 1
    cv = float(gaps.std() / gaps.mean()) if duration else None
    return ArrivalProfile(
        duration_ns=duration,
        rate_per_s=arrival_rate(arrivals.size, duration),
        gaps_ns=spread(gaps),
        gap_cv=cv,
        dispersion=tuple(_dispersions(arrivals, duration)),
        tick_ns=find_tick(gaps),
        same_instant=int(np.count_nonzero(gaps == 0)),
        window_ns=window,
        counts=np.bincount(arrivals // window, minlength=PROFILE_WINDOWS),
    )


def _dispersions(arrivals: Times, duration: int) -> list[Dispersion]:
    found = []
    for window in _DISPERSION_WINDOWS_NS:
        windows = duration // window  # the last, cut one is left out
        if windows < _LEAST_WINDOWS:
            continue
        # Only windows that hold something are counted; the empty ones enter through `windows`.
        whole = arrivals[: int(np.searchsorted(arrivals, windows * window))]
        _, filled = np.unique(whole // window, return_counts=True)
        mean = whole.size / windows
        variance = float(np.square(filled, dtype=np.float64).sum()) / windows - mean * mean
        found.append(Dispersion(window, windows, variance / mean))
    return found


def find_tick(gaps: Times) -> int | None:
    """The step of the recording clock: the largest span of which the gaps are whole multiples.

    Multiples may be off by 1 % of it, in 5 % of the gaps by more (Mooncake's 3 s tick jitters by
    1 ms). Without such a span it is the gaps' greatest common divisor, the clock's resolution.
    """
    gaps = gaps[gaps > 0]
    if not gaps.size:
        return None
    resolution = int(np.gcd.reduce(gaps))
    for candidate in np.quantile(gaps, (0.5, 0.05, 0.0), method="inverted_cdf"):
        near = gaps[np.rint(gaps / candidate) == 1]
        tick = float(near.mean())  # the candidate itself carries the jitter
        ticks = gaps / tick
        whole = (np.abs(ticks - np.rint(ticks)) <= _TICK_SLACK) & (ticks > 1.0 / 2)
        if np.count_nonzero(whole) >= _TICK_SHARE * gaps.size:
            return round(tick / resolution) * resolution
    return resolution
