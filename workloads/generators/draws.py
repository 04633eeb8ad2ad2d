"""Random draws that give the same numbers on every machine and under every numpy.

NEP 19 promises stable bits for `PCG64` and `SeedSequence` only, not for the methods of `Generator`,
so uniforms are cut from the raw 64-bit words here, and everything else is arithmetic on uniforms.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from schedbench.errors import UsageError
from schedbench.workloads.generators.portable_math import Floats, exp, log

Ints = npt.NDArray[np.int64]

_MAX_ROUNDS = 200  # of rejection; at the least acceptance worth having (1 %) 20 rounds suffice


class Stream(IntEnum):
    """One independent stream a quantity: more draws of one never shift another's."""

    ARRIVALS = 0
    PROMPT = 1
    OUTPUT = 2
    PREFIX_TOKENS = 3
    PREFIX_CHOICE = 4
    TURNS = 5
    THINK = 6
    FOLLOWUP = 7
    PRIORITY = 8
    CLIENT = 9
    LORA = 10
    THIN = 11


class Draws:
    """The draws of one stream in one block of a seeded workload."""

    def __init__(self, seed: int, stream: Stream, block: int = 0) -> None:
        if seed < 0:
            raise UsageError(f"seed {seed} is negative: seeds are integers from 0 up")
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream, block)))

    def uniform(self, n: int) -> Floats:
        """N numbers in (0, 1], in steps of 2^-53; 0 is left out so that `log` is defined."""
        words = self._bits.random_raw(n) >> np.uint64(11)
        return (words.astype(np.float64) + 1.0) * 2.0**-53

    def exponential(self, n: int) -> Floats:
        """Exponential with mean 1: -log of a uniform."""
        return -log(self.uniform(n))

    def normal(self, n: int) -> Floats:
        """Standard normal, by Marsaglia's polar method."""

        def propose(k: int) -> Floats:
            u = 2.0 * self.uniform(k) - 1.0
            v = 2.0 * self.uniform(k) - 1.0
            s = u * u + v * v
            inside = (s > 0.0) & (s < 1.0)
            return np.asarray(u[inside] * np.sqrt(-2.0 * log(s[inside]) / s[inside]))

        return self.accepted(n, propose, "normal")

    def gamma(self, shape: float, n: int) -> Floats:
        """Gamma with the given shape and scale 1: Marsaglia and Tsang, ACM TOMS 26 (2000) 363."""
        if shape < 1.0:  # section 6 there: gamma(a) = gamma(a + 1) * U^(1/a)
            boost = exp(np.maximum(log(self.uniform(n)) / shape, -700.0))
            return self.gamma(shape + 1.0, n) * boost
        d = shape - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)

        def propose(k: int) -> Floats:
            x = self.normal(k)
            log_u = log(self.uniform(k))
            t = 1.0 + c * x
            t = np.where(t > 0.0, t, 1e-300)  # stands for "refused": log v is then hugely negative
            v = t * t * t
            log_v = 3.0 * log(t)
            return np.asarray(d * v[log_u < 0.5 * x * x + d - d * v + d * log_v])

        return self.accepted(n, propose, "gamma")

    def accepted(self, n: int, propose: Callable[[int], Floats], what: str) -> Floats:
        """The first n numbers that survive `propose(k)`, which draws k and drops the refused."""
        parts: list[Floats] = []
        have = 0
        for _ in range(_MAX_ROUNDS):
            if have >= n:
                return np.concatenate([*parts, np.empty(0)])[:n]
            parts.append(propose(max(1024, (n - have) * 5 // 4)))
            have += parts[-1].size
        raise UsageError(f"{what}: fewer than 1 draw in 100 falls within the bounds; widen them")


@dataclass(frozen=True, slots=True)
class Choice:
    """A label drawn with the given weights, e.g. a client, a priority or a LoRA adapter."""

    values: tuple[int, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        weights = self.weights or (1.0,) * len(self.values)
        if not self.values or len(weights) != len(self.values):
            raise UsageError(f"choice: {len(self.values)} values and {len(weights)} weights")
        if not all(0.0 < w < math.inf for w in weights):
            raise UsageError(f"choice: weights must be positive and finite, not {weights}")

    def draw(self, draws: Draws, n: int) -> Ints:
        weights = np.array(self.weights or (1.0,) * len(self.values))
        return np.array(self.values, dtype=np.int64)[pick(weights, draws.uniform(n))]


def pick(weights: Floats, uniforms: Floats) -> Ints:
    """Index i with probability weights[i] / sum, by inverting the cumulative sum."""
    thresholds = np.cumsum(weights)  # one addition after another: no machine-dependent order
    return np.searchsorted(thresholds / thresholds[-1], uniforms).astype(np.int64)
