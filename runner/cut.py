"""Where a run of equal passes ends: before the first that starts when something happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from schedbench.results.run_rows import Integers

LONGEST_RUN = 4096  # passes, so that durations of a run fit in a cache


def cut_run(
    durations_ns: int | Integers, num_passes: int, now_ns: int, until_ns: int | None
) -> tuple[int, int | Integers]:
    """As many of equal passes as start before something happens, and how long each takes."""
    if until_ns is None:
        return num_passes, durations_ns
    if isinstance(durations_ns, int):
        return min(num_passes, -(-(until_ns - now_ns) // durations_ns)), durations_ns
    ends = durations_ns.cumsum()  # each the start of the pass after it
    num_passes = min(num_passes, 1 + int(ends.searchsorted(until_ns - now_ns)))
    return num_passes, durations_ns[:num_passes]


def cut_run_ahead(
    first_ns: int,
    durations_ns: int | Integers,
    num_passes: int,
    now_ns: int,
    until_ns: int | None,
) -> tuple[int, int | Integers]:
    """As `cut_run`, one pass ahead: the first is scheduled at once, the second after `first_ns`.

    Durations are those of the passes scheduled, the last of which stays in flight.
    """
    if until_ns is None:
        return num_passes, durations_ns
    if isinstance(durations_ns, int):
        if until_ns <= now_ns + first_ns:
            return 1, durations_ns
        rest = -(-(until_ns - now_ns - first_ns) // durations_ns)
        return min(num_passes, 1 + rest), durations_ns
    starts = now_ns + first_ns + np.cumsum(durations_ns) - durations_ns
    num_passes = 1 + int(np.searchsorted(starts[: num_passes - 1], until_ns))
    return num_passes, durations_ns[:num_passes]
