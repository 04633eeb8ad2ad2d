"""How a quantity is spread over requests."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles are values that occur: the least one with p of all values at or below it."""

    n: int
    mean: float
    min: int
    p50: int
    p90: int
    p99: int
    max: int


def spread(values: npt.NDArray[np.integer[Any]]) -> Spread | None:
    """None when there is nothing to summarise."""
    if not values.size:
        return None
    low, p50, p90, p99, high = np.quantile(values, _QUANTILES, method="inverted_cdf").tolist()
    mean = float(values.mean(dtype=np.float64))
    return Spread(int(values.size), mean, low, p50, p90, p99, high)
