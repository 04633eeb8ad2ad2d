"""Writes docs/metrics.md from the catalog in results/: `python docs/make_metrics.py`."""

from itertools import groupby
from pathlib import Path

from schedbench.results.catalog import CATALOG, FAMILIES, Metric
from schedbench.results.spread import SPREAD_KEYS

PAGE = Path(__file__).parent / "metrics.md"

HEAD = """# Metrics

Made by `docs/make_metrics.py` from `results/catalog.py`.

`summary.json`, `replay --json` and `replay --format csv` hold these; a dot in a key is a level of
the JSON. Times are whole nanoseconds of the run's clock. A quotient with nothing under the line is
null, never 0.

- **Finished** means that the model ended the request (`stop` or `length`). Latencies are over
  finished requests only, which is why every table shows how many others there are.
- **Warm-up**: requests that arrived before it are left out of latencies and goodput, and of nothing
  else. Gaps between tokens that end before it are left out of ITL.
- **Percentiles** interpolate linearly between the two closest ranks, rank (n - 1) p / 100, as
  `numpy.percentile` does, in whole numbers: the fraction of a nanosecond is dropped, so the result
  is the same on every machine. ITL is exact: each gap counts as often as it occurred.
- **Weighted by time** means by `duration_ns` of each pass. Time without a pass, when nothing could
  run, does not count; it is `makespan_ns - busy_ns`.
- **Makespan** is from the first arrival to the end of the last pass.
- **Jain's index** of n amounts x is sum(x)^2 / (n sum(x^2)): 1 where all are equal, 1/n where one
  has everything (Jain, Chiu, Hawe: DEC-TR-301, 1984).
- **Better** says which direction is better for those who wait for tokens or pay for them; where it
  is empty, the metric describes and does not judge.
"""


def page() -> str:
    """The whole page."""
    lines = ["| key | unit | better | formula |", "| --- | --- | --- | --- |"]
    for family, group in groupby(CATALOG.values(), _family):
        metrics = list(group)
        lines += [_spread(family, metrics[0])] if family else map(_line, metrics)
    families = [f"- `{name}`: {meaning}" for name, meaning in FAMILIES.items()]
    return "\n".join([HEAD, "## All keys", "", *lines, "", "Keyed by label:", "", *families, ""])


def _family(metric: Metric) -> str:
    """The key of the spread that a metric belongs to, or nothing."""
    family, _, last = metric.key.rpartition(".")
    return family if last in SPREAD_KEYS else ""


def _spread(family: str, metric: Metric) -> str:
    keys = ", ".join(SPREAD_KEYS)
    return f"| `{family}.` {keys} | ns | lower | {metric.formula} |"


def _line(metric: Metric) -> str:
    return f"| `{metric.key}` | {metric.unit.value} | {metric.better.value} | {metric.formula} |"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
