"""A comparison as sheets: the numbers that decide, where the runs part, who won and lost."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from schedbench.results.cause import Cause, cause_rows
from schedbench.results.compare import Comparison, Difference, PassDifference, differences
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import NOTHING, duration, number, scale_for
from schedbench.results.winners import WinnersAndLosers
from schedbench.results.winners_sheet import winners_sheet

HEADLINES: Final = (
    "requests_finished",
    "requests_unfinished",
    "requests_aborted",
    "requests_cut_short",
    "output_tokens_cut",
    "ttft_ns.n",
    "ttft_ns.p50",
    "ttft_ns.p90",
    "ttft_ns.p99",
    "queue_ns.p50",
    "queue_ns.p99",
    "tpot_ns.p50",
    "tpot_ns.p99",
    "itl_ns.n",
    "itl_ns.p50",
    "itl_ns.p99",
    "itl_ns.max",
    "e2e_ns.p50",
    "e2e_ns.p99",
    "requests_per_s",
    "output_tokens_per_s",
    "goodput.share",
    "goodput.requests_per_s",
    "passes",
    "tokens_scheduled",
    "preempted",
    "recomputed_tokens",
    "recomputed_share",
    "admissions_cancelled",
    "admissions_cancelled_fit",
    "admission_closed_by_preemption.ns",
    "prefix_hit_share",
    "budget.used_share",
    "kv.used_share_mean",
    "queues.waiting_mean",
)
"""The metrics a comparison shows to people; all of them are in its JSON and CSV."""

_MARKS: Final = {"better": Mark.BETTER, "worse": Mark.WORSE}
_SHOWN_COLUMNS: Final = 6
_TELLING: Final = ("admitted", "resumed", "preempted", "victims", "running_stop", "admission_stop")
_RELEASE: Final = ("vllm_version", "behaviours")  # told in words
_TIMES: Final = ("duration_ns",)
_CHAINED: Final = ("start_ns", "end_ns", "decisions")  # they carry on what differed before


def comparison_view(
    comparison: Comparison,
    changes: Sequence[Sequence[WinnersAndLosers]] = (),
    causes: Sequence[Cause | str | None] = (),
) -> View:
    """All that differs.

    Args:
        comparison: of all runs.
        changes: for each run but the first, the winners and losers by some metrics.
        causes: for each run but the first, what made it part, or why that was not looked for.
    """
    sheets = [_runs(comparison), metrics_sheet(comparison.differences, _letters(comparison))]
    for place, letter in enumerate(_letters(comparison)[1:]):
        sheets += parting_sheets(comparison, place, causes[place] if causes else None)
        sheets += [winners_sheet(letter, each) for each in (changes[place] if changes else ())]
    return View(
        "", tuple(sheets), flat_sheet(comparison), comparison_data(comparison, changes, causes)
    )


def parting_sheets(
    comparison: Comparison, place: int, cause: Cause | str | None, title: str = ""
) -> list[Sheet]:
    """Where a run parts from the first, why, and what the cause does by itself."""
    letter = _letters(comparison)[place + 1]
    sheets = [_parting(comparison, place, letter, cause, title)]
    if not isinstance(cause, Cause) or cause.summary is None or cause.next_index is None:
        return sheets
    both = differences([comparison.first_summary, dict(cause.summary)])
    changed = [each for each in both if each.verdicts[0] != "same"]
    name = f"A with {cause.alone[0]}"
    return [*sheets, metrics_sheet(changed, ("A", name), f"what {cause.alone[0]} does alone")]


def _letters(comparison: Comparison) -> list[str]:
    return [chr(ord("A") + place) for place in range(len(comparison.names))]


def _runs(comparison: Comparison) -> Sheet:
    """Which letter is which run, whose decisions they are, and the flags in which they differ."""
    flags = comparison.flags
    rows = []
    for place, (letter, name) in enumerate(
        zip(_letters(comparison), comparison.names, strict=True)
    ):
        tells_all = comparison.tells_flags[place]
        given = "  ".join(
            f"{flag}={values[place]}"
            for flag, values in flags.items()
            if flag not in _RELEASE and (tells_all or values[place] is not None)
        )
        rows.append((letter, f"{name}  {comparison.releases[place]}  {given}".rstrip()))
    return facts(rows)


def metrics_sheet(values: Sequence[Difference], names: Sequence[str], title: str = "") -> Sheet:
    """The metrics that decide, run beside run."""
    first, *others = names
    headings = [Heading("metric", is_number=False), Heading(first)]
    for letter in others:
        headings += [Heading(letter), Heading("change"), Heading("", is_number=False)]
    headings.append(Heading("unit", is_number=False))
    known = {each.metric.key: each for each in values}
    rows = [_metric(known[key]) for key in HEADLINES if key in known]
    return Sheet(title, tuple(headings), tuple(rows))


def _metric(difference: Difference) -> tuple[Cell, ...]:
    metric = difference.metric
    scale = scale_for(metric.unit, difference.values)
    cells = [Cell(metric.title), Cell(scale.text(difference.values[0]))]
    for place, verdict in enumerate(difference.verdicts, start=1):
        mark = _MARKS.get(verdict, Mark.QUIET)
        cells += [
            Cell(scale.text(difference.values[place])),
            Cell(_change(difference.change(place), verdict), mark=mark),
            Cell("" if verdict == "same" else verdict, mark=mark),
        ]
    return (*cells, Cell(scale.unit, mark=Mark.QUIET))


def _change(change: float | None, verdict: str) -> str:
    if verdict == "same":
        return "="
    return NOTHING if change is None else f"{change * 100:+,.1f} %"


def _parting(
    comparison: Comparison, place: int, letter: str, cause: Cause | str | None, title: str
) -> Sheet:
    """Where a run parts from the first: by decisions, and before that by time only."""
    decided, timed = comparison.by_decisions[place], comparison.by_time_only[place]
    title = title or f"A and {letter}"
    left_out = ("not told", _left_out(comparison, place))
    if decided is None and timed is None:
        return facts([("every pass", "equal, in decisions and in time"), left_out], title)
    return facts(
        [
            ("decisions", "the same in every pass" if decided is None else _where(decided, letter)),
            ("time only", "" if timed is None else _where(timed, letter, _TIMES)),
            *cause_rows(cause, letter),
            left_out,
        ],
        title,
    )


def _left_out(comparison: Comparison, place: int) -> str:
    """Columns that could not be compared; empty where both runs tell all."""
    names = comparison.untold[place] if comparison.untold else ()
    return f"by vLLM's own class, and left out: {', '.join(names)}" if names else ""


def _where(found: PassDifference, letter: str, columns: Container[str] | None = None) -> str:
    """Which pass, and what differs in it; of the `columns`, if given."""
    first, other = found.first, found.other
    if first is None or other is None:
        return f"{'A' if first is None else letter} ends before pass {number(found.index)}"
    shown = [name for name in found.columns if name not in _CHAINED]
    shown.sort(key=lambda name: name not in _TELLING)
    if columns is not None:
        shown = [name for name in shown if name in columns]
    values = [
        f"{name} {_value(name, first)} / {_value(name, other)}" for name in shown[:_SHOWN_COLUMNS]
    ]
    if len(shown) > _SHOWN_COLUMNS:
        values.append(f"and {len(shown) - _SHOWN_COLUMNS} more columns")
    at = f"from pass {number(found.index)}, at {duration(first['start_ns'])}"
    alike = "equal counts, of other requests or in another order"
    if columns is not None:
        alike = "it starts at another time"
    return f"{at}: {', '.join(values) or alike}"


def _value(name: str, row: Mapping[str, Any]) -> str:
    return duration(row[name]) if name.endswith("_ns") else str(row[name])


def flat_sheet(comparison: Comparison) -> Sheet:
    """A row a metric, a column a run, for CSV."""
    headings = ("metric", "unit", "better", *comparison.names)
    rows = [
        tuple(Cell("", raw) for raw in (m.key, m.unit.value, m.better.value, *each.values))
        for each in comparison.differences
        for m in [each.metric]
    ]
    return Sheet("", tuple(Heading(name) for name in headings), tuple(rows))


def comparison_data(
    comparison: Comparison,
    changes: Sequence[Sequence[WinnersAndLosers]],
    causes: Sequence[Cause | str | None],
) -> dict[str, Any]:
    """Every metric, and all that differs, for programs."""
    metrics = {
        each.metric.key: {
            "unit": each.metric.unit.value,
            "values": each.values,
            "verdicts": each.verdicts,
        }
        for each in comparison.differences
    }
    return {
        "runs": comparison.names,
        "releases": comparison.releases,
        "flags": comparison.flags,
        "metrics": metrics,
        "by_decisions": [each and asdict(each) for each in comparison.by_decisions],
        "untold": comparison.untold,
        "by_time_only": [each and asdict(each) for each in comparison.by_time_only],
        "causes": [each.as_dict() if isinstance(each, Cause) else each for each in causes],
        "requests": [[asdict(each) for each in by_metric] for by_metric in changes],
    }
