"""Which passes stand for all of them: nested choices, from a coarse one to the finest that fits.

Every choice keeps the highest and the lowest value of each series in every stretch of time
(MinMaxLTTB), so a peak that is seen from far away is the same pass from near by. All series share
the passes chosen for any of them: each point drawn is a real pass, with its whole row.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from schedbench.errors import UsageError
from schedbench.results.arrays import Ints

Ranks = npt.NDArray[np.int64]

COARSEST: Final = 400
"""Points a series in the first choice: a few for each column of pixels that a chart has."""

FINER: Final = 3
"""How many times as many the next choice takes."""

LEFT_OUT: Final = 255


def ranked(time_ns: Ints, series: Sequence[Ints], kept: Sequence[Ints], most: int) -> Ranks:
    """For each pass the first choice that holds it, or LEFT_OUT; about `most` are not left out.

    `kept[i]` are passes that every choice from the i-th on holds. Where all passes fit, the last
    choice holds all.
    """
    ranks = np.full(len(time_ns), LEFT_OUT, dtype=np.int64)
    rank, points = 0, COARSEST
    while True:
        chosen = _chosen(time_ns, series, points, kept[: rank + 1])
        is_new = chosen[ranks[chosen] == LEFT_OUT]
        if rank and int((ranks != LEFT_OUT).sum()) + is_new.size > most:
            return ranks
        ranks[is_new] = rank
        rank, points = rank + 1, points * FINER
        if points * len(series) >= len(time_ns):
            break
    if len(time_ns) <= most:
        ranks[ranks == LEFT_OUT] = rank
    return ranks


def _chosen(time_ns: Ints, series: Sequence[Ints], points: int, kept: Sequence[Ints]) -> Ints:
    ends = np.asarray([0, len(time_ns) - 1])[: len(time_ns)]
    places = [thinned(time_ns, each, points) for each in series]
    return np.unique(np.concatenate([ends, *places, *kept])).astype(np.int64)


def thinned(time_ns: Ints, values: Ints, points: int) -> Ints:
    """Places of about `points` values that look like all of them. Raises UsageError."""
    if len(values) <= points:
        return np.arange(len(values))
    try:
        from tsdownsample import MinMaxLTTBDownsampler  # noqa: PLC0415 (of the extra `report`)
    except ImportError as error:
        raise UsageError(
            "a report thins long series with tsdownsample, which is not installed: "
            "pip install 'schedbench[report]'"
        ) from error
    return np.asarray(
        MinMaxLTTBDownsampler().downsample(time_ns, values, n_out=points),  # type: ignore[no-untyped-call]
        dtype=np.int64,
    )
