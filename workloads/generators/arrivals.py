"""When requests (or sessions) start: the gaps between arrivals, in integer nanoseconds."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from schedbench.errors import UsageError
from schedbench.workloads.generators.draws import Draws, Ints

NS_PER_S = 1_000_000_000
_LONGEST_GAP_NS = float(2**53)  # 104 days: floats count nanoseconds exactly up to here


class Arrivals(Protocol):
    """`gaps_ns(draws, n)`: n waits, each before one arrival and after the arrival before it."""

    def gaps_ns(self, draws: Draws, n: int) -> Ints: ...


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals at `rate` a second: exponential gaps."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def gaps_ns(self, draws: Draws, n: int) -> Ints:
        return _whole_ns(draws.exponential(n) * (NS_PER_S / self.rate))


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma gaps of mean 1 / rate; `burstiness` is the shape, as in `vllm bench serve`.

    The gaps' coefficient of variation is burstiness^-1/2: 1 is Poisson, 0.25 gives CV 2, and larger
    than 1 is steadier than Poisson. Unlike vLLM's, the gaps are not rescaled afterwards to hit the
    nominal duration, so a longer trace begins with the shorter one.
    """

    rate: float
    burstiness: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0.001 <= self.burstiness <= 1e6:  # noqa: PLR2004
            raise UsageError(f"burstiness {self.burstiness} is outside 0.001 to 1000000")

    def gaps_ns(self, draws: Draws, n: int) -> Ints:
        scale_ns = NS_PER_S / (self.rate * self.burstiness)
        return _whole_ns(draws.gamma(self.burstiness, n) * scale_ns)


@dataclass(frozen=True, slots=True)
class FixedRate:
    """Equal gaps of 1 / rate, rounded to a nanosecond."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def gaps_ns(self, draws: Draws, n: int) -> Ints:
        del draws
        return _whole_ns(np.full(n, NS_PER_S / self.rate))


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Everything at time 0: throughput tests and offline batches."""

    def gaps_ns(self, draws: Draws, n: int) -> Ints:
        del draws
        return np.zeros(n, dtype=np.int64)


def _check_rate(rate: float) -> None:
    if not 1e-6 <= rate <= NS_PER_S:  # noqa: PLR2004
        raise UsageError(f"rate {rate} a second is outside 0.000001 to {NS_PER_S}")


def _whole_ns(gaps: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Ints:
    return np.rint(np.minimum(gaps, _LONGEST_GAP_NS)).astype(np.int64)
