"""How long prompts and outputs are, and any other positive whole number that is drawn."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from schedbench.errors import UsageError
from schedbench.workloads.generators.draws import Draws, Ints
from schedbench.workloads.generators.portable_math import Floats, exp
from schedbench.workloads.trace import Trace

MAX_TOKENS = 2**31 - 1  # the trace format's int32


class Distribution(Protocol):
    def draw(self, draws: Draws, n: int) -> Ints: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    value: int

    def __post_init__(self) -> None:
        _check_bounds("fixed", self.value, self.value)

    def draw(self, draws: Draws, n: int) -> Ints:
        del draws
        return np.full(n, self.value, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Whole numbers from low to high, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_bounds("uniform", self.low, self.high)

    def draw(self, draws: Draws, n: int) -> Ints:
        width = self.high - self.low + 1
        return self.low - 1 + np.ceil(draws.uniform(n) * width).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """exp(log median + sigma * normal), rounded; what falls outside [low, high] is drawn again.

    Drawing again, not clipping: a clip would pile requests up at the bound.
    """

    median: float
    sigma: float
    low: int = 1
    high: int = 131_072

    def __post_init__(self) -> None:
        _check_bounds("lognormal", self.low, self.high)
        if not 0.0 < self.median <= MAX_TOKENS or not 0.0 <= self.sigma <= 10.0:  # noqa: PLR2004
            raise UsageError(
                f"lognormal: median {self.median} must be positive and sigma {self.sigma} "
                "between 0 and 10"
            )

    def draw(self, draws: Draws, n: int) -> Ints:
        def propose(k: int) -> Floats:
            drawn = np.rint(self.median * exp(self.sigma * draws.normal(k)))
            return drawn[(drawn >= self.low) & (drawn <= self.high)]

        return draws.accepted(n, propose, str(self)).astype(np.int64)


class LengthModel(Protocol):
    """`draw(prompt_draws, output_draws, n)`: prompt and output tokens of n requests."""

    def draw(self, prompt: Draws, output: Draws, n: int) -> tuple[Ints, Ints]: ...


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and output lengths drawn independently of each other."""

    prompt: Distribution
    output: Distribution

    def draw(self, prompt: Draws, output: Draws, n: int) -> tuple[Ints, Ints]:
        return self.prompt.draw(prompt, n), self.output.draw(output, n)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Rows of another trace drawn with replacement, so prompt and output stay correlated."""

    trace: Trace

    def draw(self, prompt: Draws, output: Draws, n: int) -> tuple[Ints, Ints]:
        del output
        rows = np.ceil(prompt.uniform(n) * self.trace.num_requests).astype(np.int64) - 1
        prompts, outputs = (self.trace.column(c) for c in ("prompt_tokens", "output_tokens"))
        assert prompts is not None
        assert outputs is not None
        return prompts[rows].astype(np.int64), outputs[rows].astype(np.int64)


def _check_bounds(name: str, low: int, high: int) -> None:
    if not 1 <= low <= high <= MAX_TOKENS or low != int(low) or high != int(high):
        raise UsageError(f"{name}: {low} to {high} must be whole, 1 <= low <= high < 2^31")
