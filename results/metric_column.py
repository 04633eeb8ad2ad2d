"""One metric over many runs, or groups, as a column in one unit."""

from collections.abc import Sequence
from typing import TypeAlias

from schedbench.results.catalog import Better, Metric
from schedbench.results.sheet import Cell, Heading, Mark
from schedbench.results.units import scale_for

ColumnOfCells: TypeAlias = tuple[Heading, list[Cell]]


def metric_column(
    metric: Metric, title: str, values: Sequence[float | None], *, star: bool = False
) -> ColumnOfCells:
    """With `star` the best values are marked, unless all are the same."""
    scale = scale_for(metric.unit, values)
    best = _best(metric.better, values) if star else None
    marks = [Mark.BEST if best is not None and value == best else Mark.PLAIN for value in values]
    cells = [
        Cell(scale.text(value), value, mark) for value, mark in zip(values, marks, strict=True)
    ]
    return Heading(f"{title} {scale.unit}".rstrip()), cells


def _best(better: Better, values: Sequence[float | None]) -> float | None:
    known = {value for value in values if value is not None}
    if better is Better.NEITHER or len(known) == 1 or not known:
        return None
    return max(known) if better is Better.HIGHER else min(known)
