"""Latency distributions: the value at every percentile that a reader may look for, exactly."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, ints, known
from schedbench.results.request_metrics import LATENCIES, arrived_since, is_finished

NINES: Final = 5
"""Percentiles run up to 99.999, if there are as many values."""

_STEPS: Final = 40  # points for each nine


def curves(requests: pa.Table, itl: pa.Table, warmup_ns: int = 0) -> dict[str, Any]:
    """For each latency: shares, the values (ns) that so many stay within, and how many there are.

    Of the same requests as the percentiles of the summary.
    """
    counted = is_finished(requests) & arrived_since(requests, warmup_ns)
    found = {name: _curve(known(requests, name, counted)) for name in LATENCIES}
    found["itl_ns"] = _curve(ints(itl, "interval_ns"), ints(itl, "count"))
    return found


def _curve(values: Ints, counts: Ints | None = None) -> dict[str, Any]:
    """Evenly spaced in nines: 90 %, 99 % and 99.9 % are equally far apart."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    upto = np.arange(1, len(values) + 1) if counts is None else np.cumsum(counts[order])
    n = int(upto[-1]) if upto.size else 0
    if not n:
        return {"n": 0, "nines": [], "values_ns": []}
    last = min(np.log10(n), NINES)
    nines = np.append(np.arange(0.0, last, 1 / _STEPS), last)
    ranks = np.ceil((1 - 10.0**-nines) * n).clip(1, n)
    ranks[-1] = n if last < NINES else ranks[-1]
    places = np.searchsorted(upto, ranks)
    return {
        "n": n,
        "nines": nines.round(4).tolist(),
        "values_ns": ordered[places].tolist(),
    }
