"""A trace, or what was done to one, as sheets."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbench.results.sheet import Cell, Heading, Sheet, View, facts
from schedbench.results.units import duration, number, percent

if TYPE_CHECKING:
    from schedbench.workloads.describe import Demand, Description
    from schedbench.workloads.spread import Spread
    from schedbench.workloads.trace import Trace

_POINTS = ("n", "mean", "min", "p50", "p90", "p99", "max")


def written_view(trace: "Trace", path: Path, told: Sequence[tuple[str, str]] = ()) -> View:
    """What was written: requests, span, digest."""
    from schedbench.workloads.arrival_profile import arrival_rate, rate_text

    arrivals = trace.column("arrival_ns")
    span_ns = 0 if arrivals is None else int(arrivals.max())
    found = arrival_rate(trace.num_requests, span_ns)
    rate = "" if found is None else f", {rate_text(found)}"
    data = {
        "path": str(path),
        "requests": trace.num_requests,
        "duration_ns": span_ns,
        "digest": trace.digest,
        "provenance": trace.provenance,
    }
    rows = [
        *told,
        ("requests", f"{number(trace.num_requests)} over {duration(span_ns)}{rate}"),
        ("columns", ", ".join(trace.table.column_names)),
        ("digest", trace.digest),
        ("written to", str(path)),
    ]
    return view_of(rows, data)


def view_of(
    rows: Sequence[tuple[str, str]], data: object, sheets: Sequence[Sheet] = (), title: str = ""
) -> View:
    """Facts, and the sheets below them; CSV has the facts."""
    flat = Sheet(
        "",
        (Heading("what", is_number=False), Heading("value", is_number=False)),
        tuple((Cell("", name), Cell("", text)) for name, text in rows if text),
    )
    return View(title, (facts(rows), *sheets), flat, data)


def described(trace: "Trace", found: "Description") -> View:
    """Everything that `describe` found, with small plots."""
    from schedbench.workloads.describe import length_plots

    arrivals, *over_time = arrival_rows(found)
    rows = [
        ("requests", number(found.requests)),
        arrivals,
        ("burstiness", _burstiness(found)),
        *over_time,
        ("demand", _demand(found.demand)),
        ("ideal reuse", _reuse(found)),
        ("sessions", _sessions(found)),
        ("columns", ", ".join(found.columns)),
        ("digest", found.digest),
    ]
    lengths = {"prompt": found.prompt_tokens, "output": found.output_tokens}
    plots = length_plots(trace, 32)
    sheets = [
        _lengths(lengths),
        *(histogram(f"{name.removesuffix('_tokens')} tokens", plots[name]) for name in plots),
    ]
    return view_of(rows, asdict(found), sheets, Path(trace.path or "trace").name)


def arrival_rows(found: "Description") -> list[tuple[str, str]]:
    """The rate, and a plot of it over time."""
    from schedbench.workloads.describe import rate_plot

    plot = zip(("over time", ""), rate_plot(found.arrivals), strict=False)
    return [("arrivals", _arrivals(found)), *plot]


def import_rows(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What an import changed, dropped or inferred, as the file's provenance has it."""
    counted = [
        (f"import {fate}", f"{reason}: {number(rows)}")
        for fate in ("dropped", "changed")
        for reason, rows in (provenance.get(fate) or {}).items()
    ]
    inferred = provenance.get("inferred") or []
    return [*counted, *([("import inferred", ", ".join(inferred))] if inferred else [])]


def findings_sheet(found: "Description") -> Sheet:
    """What looks odd, a sentence a finding, and the first rows it concerns."""
    return facts(
        [
            (each.oddity.value.replace("_", " "), f"{each.text} ({each.where})")
            if each.where
            else (each.oddity.value.replace("_", " "), each.text)
            for each in found.findings
        ]
    )


def _lengths(spreads: Mapping[str, "Spread"]) -> Sheet:
    headings = (Heading("tokens", is_number=False), *map(Heading, _POINTS))
    rows = [
        (Cell(name), *(Cell(number(round(getattr(spread, point)))) for point in _POINTS))
        for name, spread in spreads.items()
    ]
    return Sheet("", headings, tuple(rows))


def histogram(title: str, lines: Sequence[str]) -> Sheet:
    """Lines `low-high  bar  count` as a table."""
    headings = (Heading(title), Heading("", is_number=False), Heading("requests"))
    rows = []
    for line in lines:
        bounds, rest = line.strip().split("  ", 1)
        bar, count = rest.rsplit("  ", 1)
        rows.append((Cell(bounds), Cell(bar), Cell(count)))
    return Sheet("", headings, tuple(rows))


def _arrivals(found: "Description") -> str:
    from schedbench.workloads.arrival_profile import rate_text

    profile = found.arrivals
    if profile.rate_per_s is None:
        return "all at once"
    tick = f", clock tick {duration(profile.tick_ns)}" if profile.tick_ns else ""
    return f"{rate_text(profile.rate_per_s)} over {duration(profile.duration_ns)}{tick}"


def _burstiness(found: "Description") -> str:
    profile = found.arrivals
    if profile.gap_cv is None:
        return ""
    windows = ", ".join(
        f"{number(each.index)} in windows of {duration(each.window_ns)}"
        for each in profile.dispersion
    )
    told = f"CV of the gaps {number(profile.gap_cv)} (Poisson: 1)"
    return f"{told}; variance over mean of counts {windows}" if windows else told


def _demand(demand: "Demand | None") -> str:
    if demand is None:
        return ""
    return (
        f"{number(demand.prompt)} prompt tokens/s ({number(demand.computed_prompt)} after ideal "
        f"reuse), {number(demand.output)} output tokens/s"
    )


def _reuse(found: "Description") -> str:
    reuse = found.reuse
    if reuse is None:
        return "nothing known about prefixes"
    return (
        f"{percent(reuse.share)} of prompt tokens in blocks of {reuse.block_size}; "
        f"{number(reuse.requests_with_hit)} requests, {number(reuse.distinct_roots)} first blocks"
    )


def _sessions(found: "Description") -> str:
    sessions = found.sessions
    if sessions is None:
        return ""
    turns = sessions.turns
    lengths = f", {number(turns.mean)} turns on average, {turns.max} at most" if turns else ""
    closed = f"; {number(sessions.closed_loop)} rows wait for an earlier one"
    return f"{number(sessions.sessions)}{lengths}{closed}"
