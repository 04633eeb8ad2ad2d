"""How much of a thing is enough: from where on more of it adds hardly anything to the goodput."""

from collections.abc import Sequence
from typing import Final

from schedbench.results.units import percent

CLOSE: Final = 0.01
"""Of all requests; less than this is no gain."""


def knee_told(flag: str, points: Sequence[tuple[float, float]]) -> str:
    """In words; empty where one value is all there is, or nothing is ever within the SLO.

    `points`: the value of the flag, and the share of requests within the SLO.
    """
    ordered = sorted(points)
    best = max((share for _, share in ordered), default=0.0)
    if len(ordered) < 2 or not best:  # noqa: PLR2004 (one value is no curve)
        return ""
    below = [place for place, (_, share) in enumerate(ordered) if share < best - CLOSE]
    first = below[-1] + 1 if below else 0
    if first == len(ordered):
        return f"no knee: `in SLO` falls at the largest {flag}; the best is {percent(best)}"
    value, share = ordered[first]
    if first == len(ordered) - 1:
        return (
            f"no knee yet: `in SLO` still grows at {flag} {value:,}, the largest, to "
            f"{percent(share)}; try more"
        )
    least = ", the least tried," if first == 0 else ""
    return (
        f"knee: {flag} {value:,}{least} is enough: {percent(share)} in SLO, and more adds less "
        "than 1 %"
    )
