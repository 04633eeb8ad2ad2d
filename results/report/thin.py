"""Which passes stand for all of them: nested choices, from a coarse one to the finest that fits.

Every choice keeps the highest and the lowest value of each series in every stretch of time, so no
peak is lost, and one that is seen from far away is the same pass from near by. All series share the
passes chosen for any of them: each point drawn is a real pass, with its whole row.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from schedbench.errors import UsageError
from schedbench.results.arrays import Ints, Mask
from schedbench.results.extras import remedy

COARSEST: Final = 800
"""Points a series in the first choice: two for each few pixels that a chart is wide."""

FINER: Final = 2
"""How many times as many the next choice takes."""

LEFT_OUT: Final = 255


def ranked(time_ns: Ints, series: Sequence[Ints], kept: Sequence[Ints], most: int) -> Ints:
    """For each pass the first choice that holds it, or LEFT_OUT; about `most` are not left out.

    `kept[i]` are passes that every choice from the i-th on holds. Where all passes fit, the last
    choice holds all.
    """
    ranks = np.full(len(time_ns), LEFT_OUT, dtype=np.int64)
    rank, points = 0, COARSEST
    while True:
        is_new = _chosen(time_ns, series, points, kept[: rank + 1]) & (ranks == LEFT_OUT)
        if rank and int((ranks != LEFT_OUT).sum() + is_new.sum()) > most:
            return ranks
        ranks[is_new] = rank
        rank, points = rank + 1, points * FINER
        if points * len(series) >= len(time_ns):
            break
    if len(time_ns) <= most:
        ranks[ranks == LEFT_OUT] = rank
    return ranks


def _chosen(time_ns: Ints, series: Sequence[Ints], points: int, kept: Sequence[Ints]) -> Mask:
    is_chosen = np.zeros(len(time_ns), dtype=np.bool_)
    is_chosen[:1] = is_chosen[-1:] = True
    for places in (*(thinned(time_ns, each, points) for each in series), *kept):
        is_chosen[places] = True
    return is_chosen


def thinned(time_ns: Ints, values: Ints, points: int) -> Ints:
    """Places of the extremes of `points / 2` stretches, an even number. Raises UsageError."""
    if len(values) <= points:
        return np.arange(len(values))
    try:
        from tsdownsample import MinMaxDownsampler  # noqa: PLC0415 (of the extra `report`)
    except ImportError as error:
        raise UsageError(
            "a report thins long series with tsdownsample, which is not installed: "
            f"{remedy('tsdownsample')}"
        ) from error
    return np.asarray(
        MinMaxDownsampler().downsample(time_ns, values, n_out=points),  # type: ignore[no-untyped-call]
        dtype=np.int64,
    )
