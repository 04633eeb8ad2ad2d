"""Mean, percentiles and maximum of a set of values, exact and in whole units."""

from typing import Final, TypeAlias

import numpy as np

from schedbench.results.arrays import PART_ROWS, Ints, tallied, total

PERCENTILES: Final = (50, 90, 99)
SPREAD_KEYS: Final = ("n", "mean", *(f"p{percent}" for percent in PERCENTILES), "max")

Spread: TypeAlias = dict[str, int | None]
"""By SPREAD_KEYS; all but `n` are None where n is 0: there are no percentiles of nothing."""


def spread(values: Ints, counts: Ints | None = None) -> Spread:
    """The spread of `values`, each of which occurs `counts` times (once if not given).

    With counts it equals the spread of the values written out that many times.
    """
    if counts is not None or len(values) > PART_ROWS:  # else it is quicker to sort them all
        values, counts = tallied(values, counts)
    if counts is None:
        ordered, upto = np.sort(values), np.arange(1, values.size + 1)
    else:
        order = np.argsort(values)
        ordered, upto = values[order], np.cumsum(counts[order])
    n = int(upto[-1]) if values.size else 0
    if n == 0:
        return dict.fromkeys(SPREAD_KEYS) | {"n": 0}
    points = {f"p{percent}": _percentile(ordered, upto, n, percent) for percent in PERCENTILES}
    last = int(ordered[np.searchsorted(upto, n - 1, side="right")])
    return {"n": n, "mean": total(values, counts) // n, **points, "max": last}


def _percentile(ordered: Ints, upto: Ints, n: int, percent: int) -> int:
    """Linear interpolation between the two closest ranks, as `numpy.percentile` does by default.

    The rank is (n - 1) * percent / 100. Whole numbers throughout, so that the result is the same
    on every machine; a fraction of a unit is dropped.
    """
    rank, hundredths = divmod((n - 1) * percent, 100)
    below, above = (
        int(ordered[np.searchsorted(upto, min(place, n - 1), side="right")])
        for place in (rank, rank + 1)
    )
    return below + (above - below) * hundredths // 100
