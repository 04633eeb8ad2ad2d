"""What a configuration is judged by."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from schedbench.results.catalog import CATALOG, Better, Metric


class Goal(Enum):
    """One number of a summary that is to be as high, or as low, as can be."""

    GOODPUT = "goodput.requests_per_s"
    TTFT = "ttft_ns.p99"
    THROUGHPUT = "output_tokens_per_s"

    @property
    def metric(self) -> Metric:
        return CATALOG[self.value]

    @property
    def maximizes(self) -> bool:
        return self.metric.better is Better.HIGHER

    def value_of(self, summary: Mapping[str, Any]) -> float | None:
        """The number; None where a run has none, or left requests unfinished under `ttft`."""
        found: Any = summary
        for part in self.value.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if self is Goal.TTFT and summary["requests_unfinished"]:
            return None
        return None if found is None else float(found)

    def rank(self, summary: Mapping[str, Any]) -> tuple[float, float]:
        """To sort by, the best first: the number, then TTFT p99 among equals."""
        value = self.value_of(summary)
        own = float("inf") if value is None else -value if self.maximizes else value
        ttft = summary["ttft_ns"]["p99"]
        return own, float("inf") if ttft is None else float(ttft)
