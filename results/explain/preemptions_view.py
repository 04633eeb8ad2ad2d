"""Preemptions as tables: the cost, who was hit, what ends it."""

from dataclasses import asdict
from typing import Any, Final

from schedbench.results.catalog import CATALOG, flatten
from schedbench.results.explain.preemptions import Preemptions, Remedy
from schedbench.results.explain.what_if_sheet import in_words
from schedbench.results.explain.words import counted
from schedbench.results.metric_column import metric_column
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import NOTHING, duration, number, percent

_TOP: Final = 5
_BAR: Final = 24  # characters of the longest bar
_BISECTED: Final = (
    "by bisection, down to the value beside it that was tried and does not end it; where "
    "preemptions rise and fall along a flag, another value further off may"
)
_NO_LIMIT: Final = (
    "no flag: every preemption is by a reset_prefix_cache with preempt in --events; pause and let "
    "requests end before it, or reset without preempt, which does nothing while blocks are held"
)
_PRICE: Final = {
    "ttft_ns.p50": "TTFT p50",
    "ttft_ns.p99": "p99",
    "output_tokens_per_s": "out",
    "preempted": "preempt.",
}


def preemptions_view(found: Preemptions, name: str) -> View:
    data = {
        "preempted": len(found.evictions),
        "reasons": found.reasons,
        "histogram": found.histogram,
        "recomputed_share": found.summary["recomputed_share"],
        "evictions": [asdict(each) for each in found.evictions],
        "remedies": [_remedy_data(each) for each in found.remedies],
    }
    if not found.evictions:
        return View(f"{name}: no request was ever evicted", (), _flat(found), data)
    sheets = (_facts(found), _histogram(found), _worst_hit(found), *_remedies(found))
    return View(
        f"{name}: {counted(len(found.evictions), 'preemption')}", sheets, _flat(found), data
    )


def _facts(found: Preemptions) -> Sheet:
    summary, victims = found.summary, found.victims
    reasons = ", ".join(f"{reason} {number(n)}" for reason, n in found.reasons.items())
    share = percent(len(victims) / summary["requests"])
    closed = summary["admission_closed_by_preemption"]
    tax = (
        f"{percent(summary['recomputed_share'])}: {number(summary['recomputed_tokens'])} tokens "
        f"computed again, of {number(summary['tokens_scheduled'])} scheduled · "
        f"{number(summary['preempted_tokens'])} thrown away, the cache gave back the rest"
    )
    fit = summary["admissions_cancelled_fit"]
    beside = (
        f"admission was closed in {counted(closed['passes'], 'pass')} ({duration(closed['ns'])}); "
        f"{counted(fit, 'waiting request')} would have been admitted"
    )
    return facts(
        [
            ("who", f"{counted(len(victims), 'request')}, {share} of all · reasons: {reasons}"),
            ("recompute tax", tax),
            ("begins", _beginning(found)),
            ("beside it", beside),
            ("by whom", _evictors(found)),
        ]
    )


def _beginning(found: Preemptions) -> str:
    first = found.evictions[0]
    by = first.by or "a cache reset"
    where = "between two passes" if first.index is None else f"pass {first.index}"
    return (
        f"{where}, at {duration(first.at_ns)}: {first.name} is evicted by {by}, with "
        f"{number(first.running)} running"
    )


def _evictors(found: Preemptions) -> str:
    evictors = found.evictors
    top = [f"{name} ({number(n)})" for name, n in evictors.most_common(_TOP)]
    return f"{counted(len(evictors), 'request')}; most often {', '.join(top)}" if top else ""


def _histogram(found: Preemptions) -> Sheet:
    histogram = found.histogram
    most = max(histogram.values())
    rows = [
        (
            Cell(counted(times, "time")),
            Cell("█" * max(1, round(_BAR * requests / most)), mark=Mark.QUIET),
            Cell(number(requests)),
        )
        for times, requests in histogram.items()
    ]
    headings = (
        Heading("evicted", is_number=False),
        Heading("", is_number=False),
        Heading("requests"),
    )
    return Sheet("", headings, tuple(rows))


def _worst_hit(found: Preemptions) -> Sheet:
    rows = []
    for row, times in found.victims.most_common(_TOP):
        own = [each for each in found.evictions if each.row == row]
        lost = sum(each.tokens for each in own)
        rows.append((Cell(own[0].name), Cell(number(times)), Cell(number(lost))))
    headings = (
        Heading("hit worst", is_number=False),
        Heading("evicted"),
        Heading("tokens lost"),
    )
    return Sheet("", headings, tuple(rows))


def _remedies(found: Preemptions) -> list[Sheet]:
    if all(each.by is None for each in found.evictions):
        return [facts([("what ends it", _NO_LIMIT)])]
    if not found.remedies:
        return []  # none was looked for
    known = [each for each in found.remedies if each.value is not None]
    none = [
        f"{in_words({each.flag: each.was})}: {each.reason}"
        for each in found.remedies
        if each.value is None
    ]
    if not known:
        return [facts([("what ends it", "; ".join(none))])]
    was = {"preempted": found.summary["preempted"]} if found.stalled else found.summary
    numbers = [dict(flatten(was)), *(dict(flatten(each.summary or {})) for each in known)]
    texts = ["as it was", *(in_words({each.flag: each.value}) for each in known)]
    fails = ["", *("" if each.fails is None else number(each.fails) for each in known)]
    replays = ["", *(number(each.replays) for each in known)]
    columns = [
        (Heading("change that ends it", is_number=False), [Cell(text) for text in texts]),
        (Heading("does not"), [Cell(text, mark=Mark.QUIET) for text in fails]),
        *(
            metric_column(CATALOG[key], title, [each.get(key) for each in numbers])
            for key, title in _PRICE.items()
        ),
        (Heading("replays"), [Cell(text, mark=Mark.QUIET) for text in replays]),
    ]
    rows = zip(*(cells for _, cells in columns), strict=True)
    unanswered = [f"no answer: {each}" for each in none]
    takes = [f"{in_words({each.flag: each.value})}: {each.takes}" for each in known if each.takes]
    note = "\n".join([_BISECTED, *takes, *unanswered, *filter(None, [found.times])])
    return [Sheet("", tuple(heading for heading, _ in columns), tuple(rows), note)]


def _remedy_data(remedy: Remedy) -> dict[str, Any]:
    found = asdict(remedy)
    if remedy.summary is not None:
        found["summary"] = {key: remedy.summary[key] for key in ("ttft_ns", "output_tokens_per_s")}
    return found


def _flat(found: Preemptions) -> Sheet:
    """A row an eviction, for CSV."""
    names = ("pass", "at_ns", "row", "request", "by", "reason", "tokens", "running")
    rows = [
        tuple(
            Cell("", raw)
            for raw in (
                each.index,
                each.at_ns,
                each.row,
                each.name,
                each.by or NOTHING,
                each.reason,
                each.tokens,
                each.running,
            )
        )
        for each in found.evictions
    ]
    return Sheet("", tuple(Heading(name) for name in names), tuple(rows))
