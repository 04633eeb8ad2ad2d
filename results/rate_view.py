"""The highest rate that holds an SLO, and the rates that were tried, as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbench.results.catalog import CATALOG
from schedbench.results.metric_column import metric_column
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.sweep_sheet import binding_limit
from schedbench.results.units import NOTHING, duration, number, percent


@dataclass(frozen=True, slots=True)
class TriedRate:
    """One speed-up and what came of it."""

    speedup: float
    holds: bool
    share: float | None
    summary: Mapping[str, Any] | None
    reason: str = ""


_COLUMNS = {
    "traffic.requests_per_s": "arrivals",
    "ttft_ns.p99": "TTFT p99",
    "tpot_ns.p99": "TPOT p99",
    "queues.waiting_mean": "waiting",
}


def rate_view(
    name: str,
    best: TriedRate | None,
    tried: Sequence[TriedRate],
    slo_ns: Mapping[str, int],
    attain: float,
) -> View:
    """`best` is the fastest that holds; None: none does."""
    bounds = ", ".join(f"{bound} {duration(ns)}" for bound, ns in slo_ns.items())
    title = f"{name}: the highest rate at which {percent(attain)} of requests hold {bounds}"
    ordered = sorted(tried, key=lambda each: each.speedup)
    data = {
        "attain": attain,
        "slo_ns": dict(slo_ns),
        "best": None if best is None else _data(best),
        "tried": [_data(each) for each in ordered],
    }
    sheets = (facts([("answer", _answer(best, ordered[0]))]), _table(ordered, best))
    headings = tuple(Heading(key) for key in ("speedup", "holds", "share", "requests_per_s"))
    rows = tuple(tuple(Cell("", value) for value in _data(each).values()) for each in ordered)
    return View(title, sheets, Sheet("", headings, rows), data)


def _answer(best: TriedRate | None, slowest: TriedRate) -> str:
    if best is None and slowest.reason:
        why = slowest.reason.partition(".")[0]
        return f"no rate that was tried holds it; the slowest, --speedup {slowest.speedup:g}: {why}"
    if best is None:
        return "no rate holds it, however low: a single request alone takes longer than that"
    rate = number(_rate(best))
    return f"--speedup {best.speedup:g}: {rate} requests/s, {percent(best.share)} within the bounds"


def _rate(each: TriedRate) -> float | None:
    rate: float | None = each.summary["traffic"]["requests_per_s"] if each.summary else None
    return rate


def _table(ordered: Sequence[TriedRate], best: TriedRate | None) -> Sheet:
    summaries = [each.summary or {} for each in ordered]
    columns = [
        (
            Heading("speedup"),
            [Cell(f"{each.speedup:g}", mark=_mark(each, best)) for each in ordered],
        ),
        *(
            metric_column(CATALOG[key], title, [_at(summary, key) for summary in summaries])
            for key, title in _COLUMNS.items()
        ),
        (Heading("in SLO"), [Cell(percent(each.share)) for each in ordered]),
        (
            Heading("", is_number=False),
            [_verdict(each) for each in ordered],
        ),
        (
            Heading("binding limit", is_number=False),
            [Cell(binding_limit(each.summary) if each.summary else NOTHING) for each in ordered],
        ),
    ]
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Sheet("", tuple(heading for heading, _ in columns), rows)


def _mark(each: TriedRate, best: TriedRate | None) -> Mark:
    return Mark.BEST if each is best else Mark.PLAIN


def _verdict(each: TriedRate) -> Cell:
    if each.reason:
        return Cell(each.reason.partition(":")[0], mark=Mark.FAILED)
    return Cell("holds" if each.holds else "misses", mark=Mark.BETTER if each.holds else Mark.WORSE)


def _at(summary: Mapping[str, Any], key: str) -> float | None:
    found: Any = summary
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


def _data(each: TriedRate) -> dict[str, Any]:
    return {
        "speedup": each.speedup,
        "holds": each.holds,
        "share": each.share,
        "requests_per_s": _rate(each),
    }
