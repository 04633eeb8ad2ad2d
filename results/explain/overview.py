"""The first screen: what held a run back."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from schedbench.results.catalog import flatten
from schedbench.results.drafts import drafts_told
from schedbench.results.explain.measured import measured_of, told_of
from schedbench.results.explain.waiting import longest_waits, total_waits
from schedbench.results.explain.what_if import WhatIfs, as_data
from schedbench.results.explain.what_if_sheet import run_what_ifs
from schedbench.results.explain.words import LIMITS, MEANING, counted
from schedbench.results.held_back import HeldBack, held_back
from schedbench.results.metrics import summarize, summarize_timings
from schedbench.results.sheet import Cell, Heading, Sheet, View, facts
from schedbench.results.stored_run import StoredRun
from schedbench.results.units import duration, number, percent

_NOTHING = "nothing"
_KEPT = ("requests_finished", "ttft_ns", "output_tokens_per_s", "preempted")


def stored_summary(run: StoredRun) -> dict[str, Any]:
    """The summary of a run; of one that was cut short, over what it left."""
    if run.summary:
        return run.summary
    slo, warmup = run.manifest.get("slo_ns"), run.manifest.get("warmup_ns") or 0
    tables = run.passes_on_disk(), run.requests_on_disk(), run.itl_on_disk()
    return summarize(*tables, slo=slo, warmup_ns=warmup)


def waits_by_verdict(summary: Mapping[str, Any]) -> dict[str, int]:
    """Time in the queues, ns, by the verdict's own label; the longest first."""
    return {name.removesuffix("_ns"): ns for name, ns in summary["waits"].items()}


def overview_view(
    run: StoredRun, summary: Mapping[str, Any], what_ifs: WhatIfs | None, about: str = ""
) -> View:
    """`about`: why nothing could be replayed, if so."""
    sheets = [facts([*_answers(run, summary)])]
    if what_ifs is not None and what_ifs.tried:
        sheets.append(run_what_ifs(what_ifs, "loosened"))
    sheets.append(
        facts([*_next(run, summary)], f"ask on: schedbench explain {shlex.quote(str(run.path))}")
    )
    data = {
        "run": str(run.path),
        "binding_limit": summary["binding_limit"],
        "waits_ns": waits_by_verdict(summary),
        "preempted": summary["preempted"],
        "stalled": run.manifest.get("stalled"),
        "what_ifs": None if what_ifs is None else as_data(what_ifs, _KEPT),
    }
    headings = (Heading("metric"), Heading("value"))
    rows = [(Cell("", key), Cell("", value)) for key, value in flatten(summary["binding_limit"])]
    warnings = (about,) if about else ()
    return View(
        _title(run, summary), tuple(sheets), Sheet("", headings, tuple(rows)), data, warnings
    )


def _title(run: StoredRun, summary: Mapping[str, Any]) -> str:
    limits = _limits(summary)
    if run.manifest.get("stalled"):
        return f"{run.name}: it stalled"
    found = held_back(summary)
    if found is not None and found.is_of_waiting:
        return f"{run.name}: held back by {_aside_in_words(found)}"
    if not limits:
        return f"{run.name}: nothing held it back, no limit was ever binding"
    worst = next(iter(limits))
    share = percent(limits[worst])
    return f"{run.name}: held back by {LIMITS.get(worst, worst)} in {share} of its time"


def _aside_in_words(found: HeldBack) -> str:
    return f"{LIMITS[found.limit]}: {percent(found.share)} of all waiting"


def _limits(summary: Mapping[str, Any]) -> dict[str, float]:
    """Shares of the time in passes, the largest first; not of what was held back by nothing."""
    busy = max(1, summary["busy_ns"])  # 0 where no pass was made
    parts = summary["binding_limit"].items()
    return {name: part["ns"] / busy for name, part in parts if name != _NOTHING}


def _answers(run: StoredRun, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if stalled := run.manifest.get("stalled"):
        yield "stalled", stalled
    elif not run.is_complete:
        yield "cut short", f"{counted(summary['passes'], 'pass')} are known"
    limits = _limits(summary)
    free = 1 - sum(limits.values())
    parts = [f"{LIMITS.get(name, name)} {percent(share)}" for name, share in limits.items()]
    of_time = " · ".join([*parts, f"nothing {percent(max(free, 0.0))}"])
    found = held_back(summary)
    if found is not None and found.is_of_waiting:
        of_time = f"{_aside_in_words(found)} · of the time in passes: {of_time}"
    yield "held back by", of_time
    yield "so they waited", _waited(run, summary)
    for name, key in (("TTFT", "ttft_ns"), ("TPOT", "tpot_ns")):
        found = summary[key]
        if found["n"]:
            p50, p99 = duration(found["p50"]), duration(found["p99"])
            yield name, f"p50 {p50} · p99 {p99} (n {number(found['n'])})"
    yield "preempted", _preempted(summary)
    yield "drafts", drafts_told(summary)
    yield "KV blocks", f"{percent(summary['kv']['used_share_mean'])} used on average"
    yield "real time", _real_time(run)
    if measured := measured_of(run):
        yield from told_of(measured)


def _real_time(run: StoredRun) -> str:
    """Who took the time of a pass, where forward passes were measured: scheduler or device."""
    found = summarize_timings(run.timings())
    scheduler, device = found["scheduler_ns"], found["device_ns"]
    if not device["n"]:
        return ""
    both = scheduler["mean"] + device["mean"]
    share = scheduler["mean"] / both if both else 0.0
    return (
        f"scheduler p50 {duration(scheduler['p50'])}, p99 {duration(scheduler['p99'])} a pass · "
        f"device p50 {duration(device['p50'])}, p99 {duration(device['p99'])} · "
        f"{percent(share)} of both is the scheduler's"
    )


def _waited(run: StoredRun, summary: Mapping[str, Any]) -> str:
    waits = waits_by_verdict(summary)
    total = sum(waits.values())
    if not total:
        return "nobody did"
    verdict, ns = next(iter(waits.items()))
    why = f"{percent(ns / total)} of it because {MEANING.get(verdict, verdict)}"
    requests = int((total_waits(run.requests()) > 0).sum())
    return f"{counted(requests, 'request')}, {duration(total)} in all, {why}"


def _preempted(summary: Mapping[str, Any]) -> str:
    if not summary["preempted"]:
        return "nobody"
    share = percent(summary["recomputed_share"])
    return f"{counted(summary['preempted'], 'time')}, {share} of all tokens computed twice"


def _next(run: StoredRun, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Commands that go deeper, where there is anything to be found."""
    requests = run.requests()
    names = dict(zip(requests["row"].to_pylist(), requests["request_id"].to_pylist(), strict=True))
    if longest := longest_waits(requests, names, top=1):
        first = longest[0]
        yield f"--request {first.name}", f"waited longest: {duration(first.waited_ns)}"
        yield "--waiting", "who waited for what, and who instead"
    if summary["preempted"]:
        yield "--preemptions", "who was evicted, and what ends it"
    if summary["prefix_query_tokens"]:
        share = percent(summary["prefix_hit_share"])
        yield "--prefix", f"{share} of the prompt tokens were hit"
