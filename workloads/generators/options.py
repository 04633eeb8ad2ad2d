"""The text forms of generator options, as a command line gives them.

arrivals      poisson:rate=4   gamma:rate=4,burstiness=0.25   fixed:rate=4   all-at-once
lengths       512   uniform:low=1,high=9   lognormal:median=512,sigma=1,low=1,high=8192
prefixes      4x1024/8x256,zipf=1     (4 system prompts of 1,024 tokens, 8 documents below each)
choice        0,1   or with weights   0=3,1=1
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from schedbench.errors import UsageError
from schedbench.workloads.generators.arrivals import (
    AllAtOnce,
    Arrivals,
    FixedRate,
    Gamma,
    Poisson,
)
from schedbench.workloads.generators.draws import Choice
from schedbench.workloads.generators.lengths import Distribution, Fixed, Lognormal, Uniform
from schedbench.workloads.generators.prefixes import Level, PrefixTree

Spec = TypeVar("Spec")

_ARRIVALS: Mapping[str, Callable[..., Arrivals]] = {
    "poisson": Poisson,
    "gamma": Gamma,
    "fixed": FixedRate,
    "all-at-once": AllAtOnce,
}
_DISTRIBUTIONS: Mapping[str, Callable[..., Distribution]] = {
    "fixed": Fixed,
    "uniform": Uniform,
    "lognormal": Lognormal,
}


def parse_arrivals(text: str) -> Arrivals:
    return _build("arrivals", text, _ARRIVALS)


def parse_distribution(text: str) -> Distribution:
    """A whole number alone stands for itself, always."""
    if text.strip().isdecimal():
        return Fixed(int(text))
    return _build("lengths", text, _DISTRIBUTIONS)


def parse_prefixes(text: str) -> PrefixTree:
    path, _, options = text.partition(",")
    levels = []
    for piece in path.split("/"):
        fanout, cross, tokens = piece.strip().partition("x")
        if not (cross and fanout.isdecimal() and tokens.isdecimal()):
            raise UsageError(f"prefixes {text!r}: {piece!r} is not FANOUTxTOKENS, such as 4x1024")
        levels.append(Level(int(fanout), Fixed(int(tokens))))
    given = _pairs(text, options)
    if given.keys() - {"zipf"}:
        raise UsageError(f"prefixes {text!r}: the only option is zipf=S")
    return PrefixTree(tuple(levels), **given)


def parse_choice(text: str) -> Choice:
    values, weights = [], []
    for piece in text.split(","):
        value, equals, weight = piece.partition("=")
        try:
            values.append(int(value))
            weights.append(float(weight) if equals else 1.0)
        except ValueError:
            raise UsageError(f"choice {text!r}: {piece!r} is not VALUE or VALUE=WEIGHT") from None
    return Choice(tuple(values), tuple(weights))


def _build(what: str, text: str, kinds: Mapping[str, Callable[..., Spec]]) -> Spec:
    kind, _, options = text.strip().partition(":")
    if kind not in kinds:
        raise UsageError(f"{what} {text!r}: the kind must be one of {', '.join(kinds)}")
    try:
        return kinds[kind](**_pairs(text, options))
    except TypeError as error:  # a missing or unknown option: the constructor's own words name it
        reason = str(error).rpartition("() ")[2]
        raise UsageError(f"{what} {text!r}: {kind} {reason}") from None


def _pairs(text: str, options: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for piece in filter(None, options.split(",")):
        name, _, number = piece.partition("=")
        try:
            found[name.strip()] = int(number) if number.strip().isdecimal() else float(number)
        except ValueError:
            raise UsageError(f"{text!r}: {piece!r} is not NAME=NUMBER") from None
    return found
