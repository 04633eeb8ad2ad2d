"""What a sweep ends with: the table, what was assumed, and where the runs are."""

import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedbench.cli import console
from schedbench.cli.causes import VERSION, upgrade_sheets, upgrades
from schedbench.cli.options import Printing
from schedbench.cli.release import named, release_of
from schedbench.cli.serving import spelling
from schedbench.cli.values import FLAGS, shown_option

if TYPE_CHECKING:
    from schedbench.runner.sweep import Outcome, Plan
    from schedbench.workloads.trace import Trace

_WITHOUT_RESULT = {"stalled": "stalled", "refused": "refused", "failed": "failed by a fault"}


def show(
    trace: "Trace",
    plan: "Plan",
    outcomes: list["Outcome"],
    printing: Printing,
    *,
    causes: bool,
    workers: int | None,
) -> None:
    """The table; between releases also where they part, and what made them."""
    from schedbench.cli.print_view import print_view
    from schedbench.results.sweep_sheet import SweepPoint, sweep_view
    from schedbench.results.warnings import warn_sweep

    points = [
        SweepPoint(
            {label_of(name): value for name, value in each.point.items()},
            each.summary,
            each.reason,
            release_of({**plan.flags, **each.point}, {}) if each.status != "refused" else "",
        )
        for each in outcomes
    ]
    if not points:
        return
    title = f"{Path(trace.path or 'trace').name}, {trace.num_requests:,} requests"
    finished = [each.summary for each in points if each.summary is not None]
    policies = plan.axes.get("policy", [plan.flags.get("policy")])
    warnings = warn_sweep(finished, by_priority="priority" in policies) if finished else []
    warnings += _inert(plan, outcomes)
    is_whole = len(points) == len(plan.points())
    view = sweep_view(points, title, warnings, is_grid=is_whole)
    view = named(view, release_of(plan.flags, plan.axes))
    if pairs := upgrades(plan, outcomes):
        sheets, found = upgrade_sheets(trace, plan, pairs, looks=causes, workers=workers)
        data = [
            {**point, "upgrade": found.get(each.index)}
            for point, each in zip(view.data, outcomes, strict=True)
        ]
        view = replace(view, sheets=(*view.sheets, *sheets), data=data)
    elif causes and VERSION in plan.axes and not _are_kept(outcomes):
        console.note(
            "where the releases part, and what makes them, is told from stored runs: leave out "
            "--no-store"
        )
    print_view(view, printing.chosen)
    _tell_failed(outcomes)
    if plan.options.slo_ns is None:
        console.note(
            "no --slo was given, so nothing here says which point is good enough: one such as "
            "--slo ttft:500ms,tpot:50ms adds the share of requests within it"
        )
    for description in _times(plan, outcomes):
        console.note(f"time: {description}")
    if plan.options.assumed:
        console.note(f"assumed: {'  '.join(plan.options.assumed)}")


def _times(plan: "Plan", outcomes: list["Outcome"]) -> list[str]:
    """What said how long passes take, each source once."""
    from schedbench.runner.sweep import settled

    ran = [each.point for each in outcomes if each.status != "refused"]
    return list(dict.fromkeys(settled(point, plan)[1].deployment.description for point in ran))


def _are_kept(outcomes: list["Outcome"]) -> bool:
    return any(each.path is not None for each in outcomes)


def _inert(plan: "Plan", outcomes: list["Outcome"]) -> list[str]:
    """Flags that change nothing, and in how many configurations."""
    from schedbench.runner.sweep import settled

    points = [each.point for each in outcomes if each.status != "refused"]
    found = Counter(text for point in points for text in settled(point, plan)[0].inert_warnings())
    return [
        text if count == len(points) else f"{text} (in {count} of {len(points)} configurations)"
        for text, count in found.items()
    ]


def _tell_failed(outcomes: list["Outcome"]) -> None:
    """How many points have no result, the last thing said: the reasons may have scrolled away."""
    kinds = Counter(each.status for each in outcomes if each.status != "complete")
    if kinds and len(outcomes) > kinds.total():
        told = ", ".join(f"{count} {_WITHOUT_RESULT[kind]}" for kind, count in kinds.items())
        console.warning(f"{kinds.total()} of {len(outcomes)} points have no result: {told}")


def label_of(name: str) -> str:
    """An axis as the table heads it."""
    return (shown_option(name) if name in FLAGS else spelling(name)).removeprefix("--")


def tell_folder(folder: Path | None, outcomes: list["Outcome"], missing: int) -> None:
    if folder is None:
        return
    if missing:
        console.plain(f"{missing} points are missing; it goes on with")
        console.plain(f"  schedbench sweep --resume {folder}")
        return
    console.plain(f"kept in {folder}")
    if command := worth_comparing(outcomes):
        console.plain(f"best TTFT p99 against most tokens: {command}")


def worth_comparing(outcomes: list["Outcome"]) -> str:
    """The command; empty where one point is shown to be the best in both."""
    from schedbench.results.catalog import CATALOG
    from schedbench.results.metric_column import metric_column

    kept = [each for each in outcomes if each.summary is not None and each.path is not None]
    summaries = [each.summary or {} for each in kept]
    waits = [summary["ttft_ns"]["p99"] for summary in summaries]
    rates = [summary["output_tokens_per_s"] for summary in summaries]
    if not kept or None in waits or None in rates:
        return ""
    shown_waits = [cell.text for cell in metric_column(CATALOG["ttft_ns.p99"], "", waits)[1]]
    shown_rates = [
        cell.text for cell in metric_column(CATALOG["output_tokens_per_s"], "", rates)[1]
    ]
    least, most = shown_waits[waits.index(min(waits))], shown_rates[rates.index(max(rates))]
    fastest = [at for at, text in enumerate(shown_waits) if text == least]
    busiest = [at for at, text in enumerate(shown_rates) if text == most]
    if set(fastest) & set(busiest):
        return ""
    first = max(fastest, key=lambda at: rates[at])
    second = min(busiest, key=lambda at: waits[at])
    return shlex.join(["schedbench", "compare", str(kept[first].path), str(kept[second].path)])
