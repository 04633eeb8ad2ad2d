"""Whose time a measured pass took: the scheduler's, or the device's, and did its work explain it.

What a pass should take is judged by the run itself: a + b tokens + c context + d if it has prompts,
fitted to every other pass and held against the passes between, and the other way round. So no pass
has a say in its own verdict.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from schedbench.results.arrays import Ints, ints
from schedbench.results.explain.words import counted
from schedbench.results.stored_run import StoredRun
from schedbench.results.units import duration, percent

Floats = npt.NDArray[np.float64]

LEAST_PASSES: Final = 20  # below, four numbers fit nearly anything
SLOW: Final = 2  # times what was expected


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of all passes together, ns; `expected_ns` of each pass is in none of its own fit."""

    scheduler_ns: Ints
    device_ns: Ints
    expected_ns: Floats

    @property
    def parts(self) -> dict[str, float]:
        """Shares of scheduler and device time, the largest first."""
        explained = float(np.minimum(self.device_ns, self.expected_ns).sum())
        device, scheduler = int(self.device_ns.sum()), int(self.scheduler_ns.sum())
        whole = max(1, device + scheduler)  # both 0 where nothing was measured
        found = {
            "the work it gave the device": explained / whole,
            "the device, beyond its work": (device - explained) / whole,
            "the scheduler": scheduler / whole,
        }
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    @property
    def error(self) -> float:
        """How far a pass is from what was expected, in the median."""
        return float(np.median(np.abs(self.device_ns / self.expected_ns - 1)))

    @property
    def slow(self) -> npt.NDArray[np.bool_]:
        """The passes that took the device SLOW times what was expected, or longer."""
        return np.asarray(self.device_ns >= SLOW * self.expected_ns)


def measured_of(run: StoredRun) -> Measured | None:
    """None where no device was measured, or in too few passes."""
    timings = run.timings().select(["pass", "scheduler_ns", "device_ns"]).drop_null()
    timings = timings.filter(ints(timings, "device_ns") > 0)  # a pass of nothing runs nothing
    if timings.num_rows < LEAST_PASSES:
        return None
    passes = run.passes().take(timings["pass"])
    prefill = ints(passes, "prefill_tokens")
    work = [ints(passes, "tokens_scheduled"), ints(passes, "context_tokens"), prefill > 0]
    device = ints(timings, "device_ns")
    expected = expected_of(np.stack([np.ones(len(device)), *work], axis=1), device)
    return Measured(ints(timings, "scheduler_ns"), device, expected)


def expected_of(work: Floats, device_ns: Ints) -> Floats:
    """What each pass should take, by a fit to the passes of the other half."""
    expected = np.empty(len(device_ns))
    for half in (0, 1):
        others = slice(1 - half, None, 2)
        rates = _fitted(work[others], device_ns[others].astype(np.float64))
        expected[half::2] = work[half::2] @ rates
    return np.maximum(expected, 1.0)


def _fitted(work: Floats, measured: Floats) -> Floats:
    """Least squares on relative residuals, without the columns that would get less than nothing."""
    rates, kept = np.zeros(work.shape[1]), list(range(work.shape[1]))
    while kept:
        columns = work[:, kept] / measured[:, None]
        found = np.linalg.lstsq(columns, np.ones(len(measured)), rcond=None)[0]
        if (found >= 0).all():
            rates[kept] = found
            break
        kept.pop(int(found.argmin()))
    return rates


def told_of(found: Measured) -> list[tuple[str, str]]:
    """Who took the time, and how well the work explains the device's."""
    parts, slow = found.parts, found.slow
    excess = duration(float((found.device_ns - found.expected_ns)[slow].sum()))
    odd = f"no pass took {SLOW} times as long"
    if slow.any():
        odd = (
            f"{counted(int(slow.sum()), 'pass')} took {SLOW} times as long or more, {excess} in all"
        )
    error = f"{percent(found.error)} off in the median"
    return [
        ("time went to", " · ".join(f"{name} {percent(share)}" for name, share in parts.items())),
        ("device by model", f"{error}, fitted to the other passes of the run · {odd}"),
    ]
