"""The numbers that stand out on a page, and its bars: where the time went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedbench.results.held_back import held_back
from schedbench.results.report.subject import Subject, letter_of
from schedbench.results.sweep_sheet import NOTHING_BINDS
from schedbench.results.units import NOTHING, duration, number, percent


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that stands out."""

    name: str
    value: str
    more: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One value of a bar chart."""

    text: str
    share: str
    percent: float  # of the longest bar


@dataclass(frozen=True, slots=True)
class BarRow:
    """The bars of all runs with one label."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class BarChart:
    """A row a label, a bar a run."""

    title: str
    what: str
    letters: tuple[str, ...]
    rows: tuple[BarRow, ...]
    note: str = ""


def tiles(summary: Mapping[str, Any]) -> list[Tile]:
    """What decides whether to read on."""
    ttft, tpot = summary["ttft_ns"], summary["tpot_ns"]
    met = summary.get("goodput")
    found = [
        Tile("finished", number(summary["requests_finished"]), f"of {number(summary['requests'])}"),
        Tile("TTFT p50", duration(ttft["p50"]), f"p99 {duration(ttft['p99'])}"),
        Tile("TPOT p50", duration(tpot["p50"]), f"p99 {duration(tpot['p99'])}"),
        Tile("output tokens/s", number(summary["output_tokens_per_s"]), ""),
        Tile(
            "preemptions",
            number(summary["preempted"]),
            f"{percent(summary['recomputed_share'])} recomputed",
        ),
        Tile("KV at most", percent(summary["kv"]["used_share_max"]), "of the blocks"),
        Tile("held back by", *_limit(summary)),
    ]
    return [*found, Tile("within SLO", percent(met["share"]), "")] if met else found


def _limit(summary: Mapping[str, Any]) -> tuple[str, str]:
    found = held_back(summary)
    if found is None or found.share is None:
        return NOTHING_BINDS if found is None else found.limit, ""
    of = "of all waiting" if found.is_of_waiting else "of the time"
    return found.limit, f"{percent(found.share)} {of}"


def bar_charts(subjects: Sequence[Subject]) -> list[BarChart]:
    """Where the time of requests and of passes went."""
    summaries = [subject.run.summary for subject in subjects]
    return [
        _chart(
            "Time in the queues, by what kept requests there",
            "verdict",
            [_waits(summary["waits"]) for summary in summaries],
            "Summed over all requests. pass_in_flight is the time from an arrival to the first "
            "schedule() that can see it.",
        ),
        _chart(
            "Time in passes, by the limit that held them back",
            "binding limit",
            [_times(summary["binding_limit"]) for summary in summaries],
        ),
        _chart(
            "Time in passes, by what ended admission",
            "verdict",
            [_times(summary["admission_stop"]) for summary in summaries],
        ),
    ]


def _waits(waits: Mapping[str, int]) -> dict[str, int]:
    return {name.removesuffix("_ns"): value for name, value in waits.items()}


def _times(parts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {label: part["ns"] for label, part in parts.items()}


def _chart(title: str, what: str, times: Sequence[Mapping[str, int]], note: str = "") -> BarChart:
    """All bars in one scale, so that runs can be compared by eye."""
    totals = {label: sum(each.get(label, 0) for each in times) for each in times for label in each}
    longest = max((value for each in times for value in each.values()), default=0)
    rows = [
        BarRow(
            label, tuple(_bar(each.get(label, 0), sum(each.values()), longest) for each in times)
        )
        for label in sorted(totals, key=lambda label: (-totals[label], label))
    ]
    letters = (
        tuple(letter_of(place) for place in range(len(times))) if len(times) > 1 else ("time",)
    )
    return BarChart(title, what, letters, tuple(rows), note)


def _bar(value_ns: int, whole_ns: int, longest_ns: int) -> Bar:
    if not value_ns:
        return Bar(NOTHING, "", 0.0)
    share = percent(value_ns / whole_ns)
    return Bar(duration(value_ns), share, round(100 * value_ns / longest_ns, 2))
