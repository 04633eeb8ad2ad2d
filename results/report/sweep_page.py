"""The page about a sweep: a heat map over two flags, a trade-off of two metrics, all points."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from schedbench.results.catalog import CATALOG, flatten
from schedbench.results.comparison_sheets import HEADLINES
from schedbench.results.report.assets import rendered
from schedbench.results.report.run_sheets import flag_text
from schedbench.results.report.sweep_folder import NOT_THERE, StoredSweep
from schedbench.results.sheet import facts
from schedbench.results.sweep_sheet import (
    COLUMNS,
    MORE_COLUMNS,
    PARETO,
    SweepPoint,
    binding_limit,
    pareto_front,
    sweep_view,
)
from schedbench.results.units import number

_SCRIPTS: Final = ("heat.js", "scatter.js", "sweep.js")
_MORE: Final = tuple(key for columns in MORE_COLUMNS.values() for key in columns)
_METRICS: Final = tuple(dict.fromkeys((*HEADLINES, *COLUMNS, *PARETO, *_MORE)))


def sweep_page(
    sweep: StoredSweep,
    *,
    warnings: Sequence[str] = (),
    label: Callable[[str], str] = str,
) -> str:
    """`label`: how a flag is headed."""
    numbers = [dict(flatten(point.summary)) if point.summary else {} for point in sweep.points]
    view = sweep_view([_labelled(point, label) for point in sweep.points], is_grid=_is_whole(sweep))
    (table,) = view.sheets
    name = Path(sweep.trace.get("path") or "trace").name
    finished = sum(point.summary is not None for point in sweep.points)
    context = {
        "version": version("schedbench"),
        "title": f"{sweep.kind} of {name}",
        "subtitle": f"{sweep.path.resolve().name}: {number(finished)} of "
        f"{number(len(sweep.points))} points finished · {' and '.join(sweep.releases)}",
        "sections": [
            ("heat", "Heat map"),
            ("trade", "Trade-off"),
            ("points", "Points"),
            ("config", "Configuration"),
        ],
        "sentences": [("", sentence) for sentence in (*warnings, *view.warnings)],
        "table_of_points": replace(table, note=table.note.replace("* best", "★ best")),
        "config": facts([*_config(sweep, label)]),
        "command": " ".join(sweep.command_line),
    }
    return rendered("sweep.html", _SCRIPTS, _data(sweep, numbers, label), context)


def _config(sweep: StoredSweep, label: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    for name, value in sweep.flags.items():
        yield label(name), flag_text(value)
    for name, values in sweep.derived.items():
        span = " to ".join(flag_text(value) for value in (values[0], values[-1]))
        yield label(name), f"(anew at each point: {span})"


def _is_whole(sweep: StoredSweep) -> bool:
    return sweep.kind == "Sweep" and all(point.failure != NOT_THERE for point in sweep.points)


def _labelled(point: SweepPoint, label: Callable[[str], str]) -> SweepPoint:
    return replace(point, flags={label(name): value for name, value in point.flags.items()})


def _data(
    sweep: StoredSweep, numbers: Sequence[Mapping[str, Any]], label: Callable[[str], str]
) -> dict[str, Any]:
    front = pareto_front([tuple(each.get(key) for key in PARETO) for each in numbers])
    shown = [key for key in _METRICS if any(each.get(key) is not None for each in numbers)]
    metrics = [CATALOG[key] for key in shown]
    return {
        "axes": [
            {"label": label(name), "values": [flag_text(value) for value in values]}
            for name, values in sweep.axes.items()
        ],
        "metrics": [
            {
                "key": m.key,
                "title": f"{m.title}/s" if m.unit.value.endswith("/s") else m.title,
                "unit": m.unit.value,
                "better": m.better.value,
            }
            for m in metrics
        ],
        "points": [
            {
                "flags": [flag_text(value) for value in point.flags.values()],
                "values": [each.get(key) for key in shown],
                "limit": binding_limit(point.summary) if point.summary else "",
                "failure": point.failure,
                "front": on_front,
                "path": "" if path is None else str(path),
            }
            for point, each, on_front, path in zip(
                sweep.points, numbers, front, sweep.paths, strict=True
            )
        ],
    }
