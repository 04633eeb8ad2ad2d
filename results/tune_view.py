"""What a search ends with: the winner, the front, what each flag mattered, the command line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from schedbench.results.catalog import CATALOG, metric_of
from schedbench.results.goals import Goal
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.sweep_sheet import PARETO, SweepPoint, pareto_front, spelled, sweep_view
from schedbench.results.units import duration, number, percent, scale_for
from schedbench.results.warnings import warn_sweep

_BAR: Final = 24
_MOST_ON_FRONT: Final = 8
_BESIDE: Final = ("ttft_ns.p99", "output_tokens_per_s")  # told beside the goal


@dataclass(frozen=True, slots=True)
class Tuned:
    """The outcome of a search; `points` are those replayed whole, the best first."""

    goal: Goal
    slo_ns: Mapping[str, int] | None
    start: SweepPoint | None  # where the search began: what was set before
    points: Sequence[SweepPoint]
    replayed: int
    pruned: int
    refused: int
    importances: Mapping[str, float]
    serve: str
    notes: Sequence[str] = ()


def tune_view(name: str, tuned: Tuned) -> View:
    best = tuned.points[0]
    table = sweep_view(_shown(tuned), is_grid=False)
    sheets = (_answer(tuned, best), *table.sheets, _importance(tuned), _facts(tuned))
    summaries = [point.summary for point in tuned.points if point.summary is not None]
    warnings = (*_nothing_gained(tuned, best), *warn_sweep(summaries), *tuned.notes)
    flat = sweep_view(tuned.points, is_grid=False).flat
    return View(_title(name, tuned), sheets, flat, _data(tuned, best), warnings)


def _nothing_gained(tuned: Tuned, best: SweepPoint) -> list[str]:
    """Say so where the winner is no better than what is set anyway."""
    if tuned.start is None or tuned.start.summary is None:
        return []
    goal = tuned.goal
    before, found = goal.rank(tuned.start.summary), goal.rank(best.summary or {})
    if found < before:
        return []
    flags = " ".join(_typed(name, value) for name, value in tuned.start.flags.items())
    what = f"nothing that was tried is better than what is set without a search ({flags})"
    return [f"{what}: keep that, or search wider ranges"]


def _title(name: str, tuned: Tuned) -> str:
    what = tuned.goal.metric.title
    aim = f"most {what}" if tuned.goal.maximizes else f"least {what}"
    return f"{name}: {aim}{_within(tuned)}"


def _within(tuned: Tuned) -> str:
    if not tuned.slo_ns:
        return ""
    return f" within {', '.join(f'{name} {duration(ns)}' for name, ns in tuned.slo_ns.items())}"


def _answer(tuned: Tuned, best: SweepPoint) -> Sheet:
    beside = [key for key in _BESIDE if key != tuned.goal.value]
    return facts(
        [
            ("winner", " ".join(_typed(name, value) for name, value in best.flags.items())),
            *(("as good", text) for text in _as_good(tuned, best)),
            (tuned.goal.metric.title, _gain(tuned, best)),
            *((CATALOG[key].title, _before_and_now(tuned, best, key)) for key in beside),
        ]
    )


def _as_good(tuned: Tuned, best: SweepPoint) -> Iterator[str]:
    """Where a flag moved by itself changes nothing: then its value is the one that was nearest."""
    rank = tuned.goal.rank(best.summary or {})
    equal = [each for each in tuned.points if tuned.goal.rank(each.summary or {}) == rank]
    for name, value in best.flags.items():
        alike = [
            each.flags[name] for each in equal if {**each.flags, name: value} == dict(best.flags)
        ]
        if len(alike) > 1:
            yield f"--{name} {_span(alike)}: the nearest to what is set without a search wins"


def _span(values: Sequence[Any]) -> str:
    if any(isinstance(value, bool | str) or value is None for value in values):
        return ", ".join(spelled(value) for value in values)
    return f"{min(values)} to {max(values)}"


def _typed(flag: str, value: object) -> str:
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {value}"


def _gain(tuned: Tuned, best: SweepPoint) -> str:
    """The winner's number, and that of where the search began."""
    share = (best.summary or {}).get("goodput", {}).get("share")
    kept = f" ({percent(share)} of all requests)" if share is not None else ""
    return _before_and_now(tuned, best, tuned.goal.value, kept)


def _before_and_now(tuned: Tuned, best: SweepPoint, key: str, more: str = "") -> str:
    points = [best] if tuned.start is None or tuned.start.summary is None else [best, tuned.start]
    values = [_number(point, key) for point in points]
    scale = scale_for(CATALOG[key].unit, values)
    texts = [f"{scale.text(value)} {scale.unit}".rstrip() for value in values]
    return f"{texts[0]}{more}" + (f"; it was {texts[1]}" if len(texts) > 1 else "")


def _shown(tuned: Tuned) -> list[SweepPoint]:
    """Where it began, the winner, and who no other one beats in PARETO."""
    best = tuned.points[0]
    front = [point for point in _front(tuned.points) if point is not best][:_MOST_ON_FRONT]
    rows = [("winner", best), *(("", point) for point in front)]
    if tuned.start is not None and tuned.start.flags != best.flags:
        rows.insert(0, ("before", tuned.start))
    return [replace(point, flags={"tuned": label, **point.flags}) for label, point in rows]


def _front(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Of points that come to the same, the first."""
    numbers = [tuple(_number(point, key) for key in PARETO) for point in points]
    on_front = pareto_front(numbers)
    return [
        point
        for place, point in enumerate(points)
        if on_front[place] and numbers[place] not in numbers[:place]
    ]


def _number(point: SweepPoint, key: str) -> float | None:
    found: Any = point.summary
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


def _importance(tuned: Tuned) -> Sheet:
    most = max(tuned.importances.values(), default=0.0)
    rows = [
        (
            Cell(f"--{flag}"),
            Cell("█" * round(_BAR * share / most), mark=Mark.QUIET),
            Cell(percent(share).removesuffix(" %")),
        )
        for flag, share in tuned.importances.items()
    ]
    headings = (
        Heading("how much it mattered", is_number=False),
        Heading("", is_number=False),
        Heading("%"),
    )
    return Sheet("", headings, tuple(rows))


def _facts(tuned: Tuned) -> Sheet:
    counts = [f"{number(tuned.replayed)} points replayed"]
    if tuned.pruned:
        counts.append(f"{number(tuned.pruned)} of them given up after the first part of the trace")
    if tuned.refused:
        counts.append(f"{number(tuned.refused)} refused by vLLM's rules")
    return facts([("searched", " · ".join(counts)), ("set it with", tuned.serve)])


def _data(tuned: Tuned, best: SweepPoint) -> dict[str, Any]:
    key = tuned.goal.value
    return {
        "goal": {"metric": key, "unit": metric_of(key).unit.value, "slo_ns": tuned.slo_ns},
        "winner": {"flags": best.flags, "value": tuned.goal.value_of(best.summary or {})},
        "before": None if tuned.start is None else {"flags": tuned.start.flags},
        "front": [point.flags for point in _front(tuned.points)],
        "importances": tuned.importances,
        "replayed": tuned.replayed,
        "pruned": tuned.pruned,
        "refused": tuned.refused,
        "serve": tuned.serve,
        "points": [{"flags": point.flags, "summary": point.summary} for point in tuned.points],
    }
