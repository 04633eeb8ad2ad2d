"""The summary of one run as sheets: latencies first, then what made them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedbench.results.catalog import flatten, metric_of
from schedbench.results.explain.words import counted
from schedbench.results.latency_sheet import latency_sheet
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import duration, number, percent

_LINE: Final = 66  # characters beside a name, of the 80 that a terminal has
_LABELLED: Final = {
    "binding_limit": "binding limit",
    "admission_stop": "admission ended by",
    "batch": "batch of",
}


def run_view(
    title: str,
    summary: Mapping[str, Any],
    *,
    warnings: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
    assumed: Mapping[str, str] | None = None,
) -> View:
    """All of a summary.

    Args:
        title: what was replayed.
        summary: as `summarize` makes it.
        warnings: what is to be said beside it.
        about: where the numbers come from, by a word each.
        assumed: flags that nobody gave, and the value they got.
    """
    sheets = [latency_sheet(summary), _answers(summary)]
    sheets += [_by_label(summary, key, heading) for key, heading in _LABELLED.items()]
    about, assumed = about or {}, assumed or {}
    lines = _lines([f"{flag} {value}" for flag, value in assumed.items()])
    labels = ["assumed", *[""] * len(lines)]
    sheets.append(facts([*about.items(), *zip(labels, lines, strict=False)]))
    data = {**summary, **about, **({"assumed": dict(assumed)} if assumed else {})}
    return View(title, tuple(sheets), flat_sheet(summary), data, tuple(warnings))


def _lines(words: Sequence[str]) -> list[str]:
    """Words in lines that a terminal of usual width holds."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 2 <= _LINE:
            lines[-1] += f"  {word}"
        else:
            lines.append(word)
    return lines


def _answers(summary: Mapping[str, Any]) -> Sheet:
    return facts(
        [
            ("requests", _requests(summary)),
            ("throughput", _throughput(summary)),
            ("goodput", _goodput(summary)),
            ("passes", _passes(summary)),
            ("preemption", _preemption(summary)),
            ("admission", _admission(summary)),
            ("prefix cache", _prefix(summary)),
            ("KV blocks", _kv(summary)),
            ("queues", _queues(summary)),
        ]
    )


def _requests(summary: Mapping[str, Any]) -> str:
    parts = [f"{number(summary['requests_finished'])} of {number(summary['requests'])} finished"]
    others = [(summary[f"requests_{how}"], how) for how in ("unfinished", "aborted", "errored")]
    parts += [f"{number(count)} {how}" for count, how in others if count]
    if cut := summary["requests_cut_short"]:
        missing = counted(summary["output_tokens_cut"], "token")
        parts.append(f"{number(cut)} of them cut short by {missing}")
    rate = summary["traffic"]["requests_per_s"]
    return _joined(*parts, f"arrivals at {number(rate)} requests/s" if rate else "")


def _throughput(summary: Mapping[str, Any]) -> str:
    return _joined(
        f"{number(summary['requests_per_s'])} requests/s",
        f"{number(summary['output_tokens_per_s'])} output tokens/s",
        f"{number(summary['scheduled_tokens_per_s'])} scheduled tokens/s",
    )


def _goodput(summary: Mapping[str, Any]) -> str:
    goodput = summary.get("goodput")
    if goodput is None:
        return ""
    bounds = ", ".join(f"{name} {duration(ns)}" for name, ns in goodput["slo_ns"].items())
    met = f"{percent(goodput['share'])} within {bounds}"
    return _joined(f"{number(goodput['requests_per_s'])} requests/s", met)


def _passes(summary: Mapping[str, Any]) -> str:
    makespan = summary["makespan_ns"]
    busy = _busy(summary)
    return _joined(
        f"{number(summary['passes'])} in {duration(makespan)} ({busy})",
        f"{number(summary['tokens_scheduled'])} tokens scheduled",
        f"budget {percent(summary['budget']['used_share'])} used",
    )


def _busy(summary: Mapping[str, Any]) -> str:
    """The part of the time with a pass: the device runs one at a time."""
    busy, makespan = summary["busy_ns"], summary["makespan_ns"]
    return f"{percent(busy / makespan)} busy" if makespan else "- busy"


def _preemption(summary: Mapping[str, Any]) -> str:
    if not summary["preempted"]:
        return "none"
    by_reset = summary["preempted_by_reset"]
    return _joined(
        counted(summary["preempted"], "preemption"),
        f"{number(by_reset)} of them by cache resets" if by_reset else "",
        f"{number(summary['preempted_tokens'])} tokens thrown away",
        f"{number(summary['recomputed_tokens'])} recomputed "
        f"({percent(summary['recomputed_share'])} of all scheduled)",
    )


def _admission(summary: Mapping[str, Any]) -> str:
    closed = summary["admission_closed_by_preemption"]
    if closed["passes"] is None:
        cancelled = number(summary["admissions_cancelled"])
        return f"{cancelled} cancelled by a preemption · why else it ended is not told"
    if not closed["passes"]:
        return "never closed by a preemption"
    fit = f"{number(summary['admissions_cancelled_fit'])} would have been admitted"
    return _joined(
        f"closed by preemption in {counted(closed['passes'], 'pass')} ({duration(closed['ns'])})",
        f"{number(summary['admissions_cancelled'])} cancelled, {fit}",
        f"{number(summary['budget_stranded'])} tokens of budget stranded",
    )


def _prefix(summary: Mapping[str, Any]) -> str:
    if not summary["prefix_query_tokens"]:
        return ""
    hit, queried = summary["prefix_hit_tokens"], summary["prefix_query_tokens"]
    resumed = summary["resumed_cached_tokens"]
    return _joined(
        f"{percent(summary['prefix_hit_share'])} hit",
        f"{number(hit)} of {number(queried)} tokens",
        f"resumes apart: {number(resumed)}" if resumed else "",
    )


def _kv(summary: Mapping[str, Any]) -> str:
    kv = summary["kv"]
    mean, most = percent(kv["used_share_mean"]), percent(kv["used_share_max"])
    return _joined(f"{mean} used on average, {most} at most", f"{number(kv['blocks'])} blocks")


def _queues(summary: Mapping[str, Any]) -> str:
    queues = summary["queues"]
    held = queues["seats_held_by_sessions_max"]
    return _joined(
        *(
            f"{name} {number(queues[f'{name}_mean'])} on average, "
            f"{number(queues[f'{name}_max'])} at most"
            for name in ("running", "waiting")
        ),
        f"seats held by sessions: {number(held)} at most" if held else "",
    )


def _by_label(summary: Mapping[str, Any], key: str, heading: str) -> Sheet:
    """Passes and time of each label, with their shares; labels without a pass are left out."""
    headings = (Heading(heading, is_number=False), *map(Heading, ("passes", "%", "time", "%")))
    parts = {label: part for label, part in summary[key].items() if part["passes"]}
    rows = [
        (
            Cell(label),
            Cell(number(part["passes"])),
            Cell(_share(part["passes"], summary["passes"]), mark=Mark.QUIET),
            Cell(duration(part["ns"])),
            Cell(_share(part["ns"], summary["busy_ns"]), mark=Mark.QUIET),
        )
        for label, part in parts.items()
    ]
    return Sheet("", headings, tuple(rows))


def _share(part: int, whole: int) -> str:
    return percent(part / whole).removesuffix(" %") if whole else "-"


def flat_sheet(summary: Mapping[str, Any]) -> Sheet:
    """A row a number, for CSV: its path, its value, its unit."""
    headings = tuple(Heading(name) for name in ("metric", "value", "unit"))
    rows = [
        tuple(Cell("", raw) for raw in (key, value, metric_of(key).unit.value))
        for key, value in flatten(summary)
    ]
    return Sheet("", headings, tuple(rows))


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
