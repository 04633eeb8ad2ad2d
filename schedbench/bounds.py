"""The range of a number that is typed or handed over, and the one message for one outside it."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from schedbench.errors import UsageError

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
SHOWN_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True)
class Bounds:
    """From `low` to `high`, each included unless it is open. NaN is outside of every range."""

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float | Fraction) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        low = "above" if self.open_low else "from"
        return f"{low} {_text(self.low)} to {'below ' * self.open_high}{_text(self.high)}"

    def check(self, value: float, option: str, typed: str | None = None) -> None:
        """Raises UsageError that names the option, the value and the range."""
        if value not in self:
            raise UsageError(f"{option} is {shortened(typed or str(value))}: it must be {self}")


def shortened(text: str) -> str:
    """A value in a message: long ones end after some characters, with their length."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"


def _text(number: float) -> str:
    return f"{Decimal(repr(number)).normalize():f}"


COUNT: Final = Bounds(0, INT32_MAX)
SOME: Final = Bounds(1, INT32_MAX)
INDEX: Final = Bounds(0, INT64_MAX)
ROWS: Final = Bounds(1, INT64_MAX)
SEED: Final = Bounds(0, INT64_MAX)
GPUS: Final = Bounds(1, 1024)  # that share one model
ZIPF: Final = Bounds(0.0, 10.0)
SHARE: Final = Bounds(0.0, 1.0)
PART: Final = Bounds(0.0, 1.0, open_low=True)
SHARE_BELOW_ONE: Final = Bounds(0.0, 1.0, open_high=True)
