"""The page about one run, or several side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from schedbench.errors import UsageError
from schedbench.results.compare import compare
from schedbench.results.comparison_sheets import comparison_view
from schedbench.results.report.assets import rendered
from schedbench.results.report.bars import bar_charts, tiles
from schedbench.results.report.run_charts import chart_data
from schedbench.results.report.run_sheets import config_sheets, latencies_sheet
from schedbench.results.report.subject import Subject, Window, letter_of
from schedbench.results.sheet import Sheet
from schedbench.results.summary_sheets import run_view
from schedbench.results.units import duration, number
from schedbench.results.winners import COMPARED, winners_and_losers

MOST_RUNS: Final = 6
"""Side by side; with more of them the charts get too narrow to read."""

LATENCIES: Final = {
    "ttft_ns": "TTFT",
    "tpot_ns": "TPOT",
    "itl_ns": "ITL",
    "e2e_ns": "E2E",
}
"""Those with a curve; the table has the time in the queue as well."""
_SCRIPTS: Final = (
    "unpack.js",
    "levels.js",
    "window.js",
    "panels.js",
    "series.js",
    "chart.js",
    "marks.js",
    "row.js",
    "curves.js",
    "runs.js",
)


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page, and how much of the runs it holds."""

    html: str
    passes: int
    passes_held: int


def run_page(subjects: Sequence[Subject], window: Window = Window()) -> Page:  # noqa: B008 (frozen)
    """Raises UsageError for more runs than fit side by side, or if a package is missing."""
    if len(subjects) > MOST_RUNS:
        raise UsageError(
            f"{len(subjects)} runs do not fit side by side: a report takes {MOST_RUNS} at most. "
            "Name fewer, or the folder of a sweep"
        )
    data = chart_data(subjects, window)
    held = sum(run["points"]["rows"] for run in data["runs"])
    passes = sum(run["passes"] for run in data["runs"])
    if not passes:
        raise UsageError(_nothing(subjects, window))
    return Page(_html(subjects, window, data, passes == held), passes, held)


def _nothing(subjects: Sequence[Subject], window: Window) -> str:
    if window != Window():
        return "no pass starts within the window; give other values of --from and --to"
    names = ", ".join(str(subject.run.path) for subject in subjects)
    return f"{names}: no pass was made, so there is nothing to draw. Replay a trace with requests"


def _html(subjects: Sequence[Subject], window: Window, data: Any, is_whole: bool) -> str:  # noqa: ANN401 - JSON
    is_single = len(subjects) == 1
    summary, changes = _single(subjects[0]) if is_single else _several(subjects)
    facts = {
        "version": version("schedbench"),
        "title": _title(subjects),
        "subtitle": _subtitle(subjects),
        "sections": _sections(has_changes=bool(changes)),
        "runs": data["runs"],
        "sentences": _sentences(subjects),
        "tiles": tiles(subjects[0].run.summary) if is_single else [],
        "summary": summary,
        "latencies": [latencies_sheet(subjects, {**LATENCIES, "queue_ns": "queue"})],
        "latency_note": _warmup(subjects),
        "charts": bar_charts(subjects),
        "changes": changes,
        "config": config_sheets(subjects),
        "notes": _notes(window, is_whole=is_whole),
    }
    return rendered("run.html", _SCRIPTS, {**data, "latencies": LATENCIES}, facts)


def _title(subjects: Sequence[Subject]) -> str:
    paths = [each.run.manifest["trace"]["path"] or "trace" for each in subjects]
    return ", ".join(dict.fromkeys(Path(path).name for path in paths))


def _subtitle(subjects: Sequence[Subject]) -> str:
    """Which runs, and whose decisions theirs are."""
    releases = " and ".join(dict.fromkeys(subject.run.release for subject in subjects))
    if len(subjects) == 1:
        return f"{subjects[0].run.name} · {releases}"
    return f"{len(subjects)} runs side by side · {releases}"


def _sections(*, has_changes: bool) -> list[tuple[str, str]]:
    found = [("summary", "Summary"), ("time", "Over time"), ("latency", "Latencies")]
    found += [("waits", "Waits")] + ([("compare", "Who won")] if has_changes else [])
    return [*found, ("config", "Configuration"), ("how", "How to read")]


def _sentences(subjects: Sequence[Subject]) -> list[tuple[str, str]]:
    """Warnings, each with the letter of its run where there are several."""
    found = []
    if len({subject.run.trace_digest for subject in subjects}) > 1:
        found.append(
            ("", "these runs replay different traces: their passes and requests do not correspond")
        )
    for place, subject in enumerate(subjects):
        letter = letter_of(place) if len(subjects) > 1 else ""
        stalled = subject.run.manifest.get("stalled")
        found += [(letter, f"the replay {stalled}")] if stalled else []
        found += [(letter, sentence) for sentence in subject.warnings]
    return found


def _single(subject: Subject) -> tuple[tuple[Sheet, ...], tuple[Sheet, ...]]:
    sheets = run_view("", subject.run.summary).sheets
    return tuple(sheet for sheet in sheets if not sheet.headings), ()


def _several(subjects: Sequence[Subject]) -> tuple[tuple[Sheet, ...], tuple[Sheet, ...]]:
    """Which run is which and the metrics that decide; where they part, who won and lost."""
    runs = [subject.run for subject in subjects]
    comparison = compare(runs, across_traces=True)
    if len({run.trace_digest for run in runs}) > 1:
        return comparison_view(comparison).sheets[:2], ()
    tables = [run.requests() for run in runs]
    changes = [
        [winners_and_losers(tables[0], table, metric) for metric in COMPARED]
        for table in tables[1:]
    ]
    sheets = comparison_view(comparison, changes).sheets
    return sheets[:2], sheets[2:]


def _warmup(subjects: Sequence[Subject]) -> str:
    left_out = {subject.run.manifest.get("warmup_ns") or 0 for subject in subjects} - {0}
    return f"The warm-up of {duration(max(left_out))} is left out." if left_out else ""


def _notes(window: Window, *, is_whole: bool) -> list[str]:
    """What this page leaves out."""
    notes = []
    if not is_whole:
        notes.append(
            "This page holds a part of the passes, the peaks among them. For every pass of a "
            "shorter time, make a report with --from and --to."
        )
    if window.from_ns is not None or window.to_ns is not None:
        since = duration(window.from_ns or 0)
        until = "the end" if window.to_ns is None else duration(window.to_ns)
        notes.append(
            f"The charts over time show passes from {since} to {until}; all else is of whole runs."
        )
    return notes


def held_text(page: Page) -> str:
    """How much of the runs a page holds."""
    if page.passes == page.passes_held:
        return f"every pass of {number(page.passes)}"
    return f"{number(page.passes_held)} of {number(page.passes)} passes, peaks kept"
