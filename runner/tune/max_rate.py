"""The highest arrival rate that holds an SLO: the speed-up, bisected over real replays."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from schedbench.runner.sweep import make_job, outcome_of, reuse
from schedbench.runner.sweep_worker import Job, replay_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from schedbench.runner.sweep import Outcome, Plan
    from schedbench.workloads.trace import Trace

FASTEST: Final = Fraction(1024)
SLOWEST: Final = Fraction(1, 1024)
FINENESS: Final = Fraction(1, 100)  # of the speed-up
DIGITS: Final = 3  # of a speed-up that people can type


@dataclass(frozen=True)
class Rate:
    """One speed-up: the share of requests within the SLO, and whether that is enough."""

    speedup: Fraction
    share: float | None
    holds: bool
    summary: dict[str, Any] | None = None
    reason: str = ""


@dataclass
class RateSearch:
    """Bisects the speed-up; `attain` is the share of requests that must hold the SLO."""

    trace: Trace
    plan: Plan
    attain: float
    root: Path | None = None
    told: Callable[[RateSearch], None] | None = None
    rates: list[Rate] = field(default_factory=list)

    def run(self) -> Rate | None:
        """The fastest that holds, with the next hundredth faster not holding; None: none does."""
        bounds = self._bounds(Fraction(self.plan.options.speedup))
        if bounds is None:
            return None
        low, high = bounds
        while high.speedup - low.speedup > low.speedup * FINENESS:
            middle = typed((low.speedup + high.speedup) / 2)
            if middle in (low.speedup, high.speedup):
                break
            rate = self.at(middle)
            low, high = (rate, high) if rate.holds else (low, rate)
        return low

    def at(self, speedup: Fraction) -> Rate:
        """Replay at a speed-up."""
        job = make_job(0, {"speedup": str(speedup)}, self.plan, self.trace, self.root)
        if isinstance(job, Job):
            job = reuse(job) or outcome_of(job, replay_job(self.trace, job))
        rate = self._rate(speedup, job)
        self.rates.append(rate)
        if self.told is not None:
            self.told(self)
        return rate

    def _rate(self, speedup: Fraction, outcome: Outcome) -> Rate:
        if outcome.summary is None:
            return Rate(speedup, None, holds=False, reason=outcome.reason)
        share = outcome.summary["goodput"]["share"]
        holds = share is not None and share >= self.attain
        return Rate(speedup, share, holds, outcome.summary)

    def _bounds(self, start: Fraction) -> tuple[Rate, Rate] | None:
        """One that holds and one, twice as fast, that does not."""
        rate = self.at(start)
        step = Fraction(2) if rate.holds else Fraction(1, 2)
        while SLOWEST <= rate.speedup <= FASTEST:
            other = self.at(typed(rate.speedup * step))
            if other.holds != rate.holds:
                return (rate, other) if rate.holds else (other, rate)
            rate = other
        return (rate, rate) if rate.holds else None


def typed(speedup: Fraction) -> Fraction:
    """Cut to a few digits."""
    return Fraction(f"{float(speedup):.{DIGITS}g}")
