"""The steps from one release to another as sheets: found by `schedbench.runner.upgrade_steps`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from schedbench.results.catalog import CATALOG, flatten
from schedbench.results.cause import Cause
from schedbench.results.compare import Comparison, PassDifference, differences
from schedbench.results.comparison_sheets import metrics_sheet, parting_sheets
from schedbench.results.metric_column import metric_column
from schedbench.results.sheet import Cell, Heading, Mark, Sheet, View, facts
from schedbench.results.units import NOTHING, number

COLUMNS: Final = {
    "ttft_ns.p50": "TTFT p50",
    "ttft_ns.p99": "TTFT p99",
    "tpot_ns.p50": "TPOT p50",
    "tpot_ns.p99": "TPOT p99",
    "preempted": "preempt.",
    "output_tokens_per_s": "out",
}
"""What is shown of each release; all of a summary is in the JSON."""

NO_WAY = "none"


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """A release: its numbers or why it has none, and how it parts from the one before.

    `same_as`: an earlier one with the same behaviours and flags. `before`: the last one that was
    replayed before it. `ways_back`: by behaviour or flag of the cause, flags that undo it.
    """

    release: str
    summary: dict[str, Any] | None = None
    reason: str = ""
    same_as: str = ""
    before: str = ""
    parting: PassDifference | None = None
    cause: Cause | None = None
    ways_back: Mapping[str, str] = field(default_factory=dict)

    @property
    def causes(self) -> tuple[str, ...]:
        """What made it part: the one that is enough, or those that are it together."""
        return () if self.cause is None else self.cause.alone[:1] or self.cause.together

    @property
    def way_back(self) -> str:
        """The flags that bring the old way back; empty where one of the causes has none."""
        ways = [self.ways_back.get(name, "") for name in self.causes]
        return " ".join(dict.fromkeys(ways)) if all(ways) else ""


def upgrade_view(rows: Sequence[ReleaseRow], title: str = "", warnings: Sequence[str] = ()) -> View:
    """One table over all releases, what changed from the first to the last, and the first step."""
    numbers = [dict(flatten(row.summary)) if row.summary else {} for row in rows]
    sheets = [_table(rows, numbers), *_whole(rows), *_first_step(rows)]
    failures = [f"vLLM {row.release}: {row.reason}" for row in rows if row.reason]
    data = [_data(row) for row in rows]
    return View(title, tuple(sheets), _flat(rows, numbers), data, (*warnings, *failures))


def _table(rows: Sequence[ReleaseRow], numbers: Sequence[dict[str, Any]]) -> Sheet:
    shown = [key for key in COLUMNS if any(each.get(key) is not None for each in numbers)]
    columns = [
        (Heading("release", is_number=False), [Cell(row.release) for row in rows]),
        (Heading("parts from pass", is_number=False), [_parts(row) for row in rows]),
        (Heading("because of", is_number=False), [Cell(", ".join(row.causes)) for row in rows]),
        (Heading("flag back", is_number=False), [Cell(_back(row)) for row in rows]),
        *(
            metric_column(CATALOG[key], COLUMNS[key], [each.get(key) for each in numbers])
            for key in shown
        ),
    ]
    cells = tuple(zip(*(each for _, each in columns), strict=True))
    note = (
        "parts from pass: the first pass that is decided otherwise than in the release before; "
        "because of: the behaviour that makes it, and the flag that brings the old way back"
    )
    return Sheet("", tuple(heading for heading, _ in columns), cells, note)


def _parts(row: ReleaseRow) -> Cell:
    if row.summary is None:
        return Cell("no result", mark=Mark.FAILED)
    if row.same_as:
        return Cell(f"as {row.same_as}")
    if row.parting is not None:
        return Cell(number(row.parting.index))
    return Cell(f"equal to {row.before}" if row.before else NOTHING)


def _back(row: ReleaseRow) -> str:
    return (row.way_back or NO_WAY) if row.causes else ""


def _whole(rows: Sequence[ReleaseRow]) -> Iterator[Sheet]:
    """What changed from the first release to the last, if anything did."""
    ran = [row for row in rows if row.summary is not None]
    if not any(row.parting for row in ran):
        return
    first, last = ran[0], ran[-1]
    both = differences([each.summary for each in (first, last) if each.summary is not None])
    changed = [each for each in both if each.verdicts[0] != "same"]
    yield metrics_sheet(changed, (first.release, last.release), "what the whole upgrade changes")


def _first_step(rows: Sequence[ReleaseRow]) -> list[Sheet]:
    """The first release that changes a pass, why, and what that does by itself."""
    known = {row.release: row for row in rows}
    row = next((row for row in rows if row.parting is not None), None)
    if row is None:
        ran = [row.release for row in rows if row.summary is not None]
        if len(ran) < 2:  # noqa: PLR2004 - one has nothing to stand beside
            return []
        return [facts([("every pass", f"equal in {', '.join(ran)}")])]
    before = known[row.before]
    comparison = Comparison(
        names=(before.release, row.release),
        releases=(f"vLLM {before.release}", f"vLLM {row.release}"),
        flags={},
        tells_flags=(True, True),
        differences=(),
        first_summary=before.summary or {},
        by_decisions=(row.parting,),
        by_time_only=(None,),
    )
    title = f"the first step that changes a pass; A and B: {before.release} and {row.release}"
    first, *more = parting_sheets(comparison, 0, row.cause, title)
    if row.causes:
        told = row.way_back or f"none: no flag undoes {', '.join(row.causes)}"
        first = replace(first, rows=(*first.rows, (Cell("flag back"), Cell(told))))
    return [first, *more]


def _data(row: ReleaseRow) -> dict[str, Any]:
    return {
        "release": row.release,
        "same_as": row.same_as or None,
        "before": row.before or None,
        "failure": row.reason or None,
        "parting": row.parting and asdict(row.parting),
        "cause": row.cause and row.cause.as_dict(),
        "flags_back": dict(row.ways_back),
        "summary": row.summary,
    }


def _flat(rows: Sequence[ReleaseRow], numbers: Sequence[dict[str, Any]]) -> Sheet:
    """A row a release, a column a number, for CSV."""
    keys = list(dict.fromkeys(key for each in numbers for key in each))
    headings = ("release", "same_as", "failure", "parts_from_pass", "because_of", "flag_back")
    cells = [
        (
            row.release,
            row.same_as or None,
            row.reason or None,
            None if row.parting is None else row.parting.index,
            ", ".join(row.causes) or None,
            row.way_back or None,
            *(each.get(key) for key in keys),
        )
        for row, each in zip(rows, numbers, strict=True)
    ]
    return Sheet(
        "",
        tuple(Heading(name) for name in (*headings, *keys)),
        tuple(tuple(Cell("", raw) for raw in row) for row in cells),
    )
