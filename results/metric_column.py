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
    """With `star` the values that show as the best are marked, unless all show the same."""
    scale = scale_for(metric.unit, values)
    best = _best(metric.better, values) if star else None
    texts = [scale.text(value) for value in values]
    shown = None if best is None else scale.text(best)
    if len({text for text, value in zip(texts, values, strict=True) if value is not None}) == 1:
        shown = None  # digits that are not shown make no winner
    cells = [
        Cell(text, value, Mark.BEST if text == shown else Mark.PLAIN)
        for text, value in zip(texts, values, strict=True)
    ]
    return Heading(f"{title} {scale.unit}".rstrip()), cells


def _best(better: Better, values: Sequence[float | None]) -> float | None:
    known = {value for value in values if value is not None}
    if better is Better.NEITHER or len(known) == 1 or not known:
        return None
    return max(known) if better is Better.HIGHER else min(known)
