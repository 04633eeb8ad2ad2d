"""What every trace must hold, checked on every row whenever one is read or made.

Each failure names the row, the column, the rule and what to do about it. A `Checks` is fed a
trace whole or in batches, and remembers of earlier rows what the next ones are judged by.
"""

from dataclasses import dataclass, field, replace

import pyarrow as pa

from schedbench.workloads.arrays import integers, known, required
from schedbench.workloads.check_labels import RequestIdChecks, TurnChecks, check_after
from schedbench.workloads.check_nested import MOST_NS, check_nested, waits_ns
from schedbench.workloads.check_order import OrderChecks
from schedbench.workloads.check_prefix import PrefixChecks
from schedbench.workloads.place import Place
from schedbench.workloads.schema import COLUMNS, NOT_KNOWN

_LEAST: dict[str, int | None] = {
    "prompt_tokens": 1,
    "output_tokens": 1,
    "lora": 1,
    "priority": None,
}
"""The least value of a flat column, where it is not 0; None: any number goes."""

MOST_WAITS_NS = 1 << 62
"""Of all waits of a trace: a closed loop may put each behind the other."""
NS_PER_YEAR = 365.25 * 86_400e9

_REMEDY = {
    "prompt_tokens": "A request has at least one prompt token: drop the row",
    "output_tokens": "No generated token means a failed request: drop the row, or import with "
    "--on-zero-output drop|one",
    "lora": "Adapters count from 1; leave the column empty for the base model",
}


@dataclass(slots=True)
class Checks:
    """All rules of the trace format; raises TraceError for the first row that breaks one."""

    place: Place
    prefix: PrefixChecks
    rows: int = 0
    _order: OrderChecks = field(default_factory=OrderChecks)
    _request_ids: RequestIdChecks = field(default_factory=RequestIdChecks)
    _waits_ns: float = 0.0
    _turns: TurnChecks = field(default_factory=TurnChecks)

    @classmethod
    def of(cls, source: str, hash_block_tokens: int | None) -> "Checks":
        return cls(Place(source), PrefixChecks(hash_block_tokens))

    def feed(self, table: pa.Table) -> None:
        """Check the next rows; the columns have the schema's types already."""
        place = _with_source_rows(self.place.moved(self.rows), table)
        _check_values(table, place)
        self._order.feed(table, place)
        self._request_ids.feed(table, place)
        self._turns.feed(table, place)
        check_after(table, place)
        check_nested(table, place)
        self._waits_ns += waits_ns(table)
        self.prefix.feed(table, place)
        self.rows += table.num_rows

    def finish(self) -> None:
        """Rules about the whole: there are rows, and time begins at 0."""
        if not self.rows:
            raise self.place.refuse_input("holds no requests", "A trace needs at least one row")
        self._order.finish(self.place)
        if self._waits_ns > MOST_WAITS_NS:
            found = f"states waits of {self._waits_ns / NS_PER_YEAR:,.0f} years in all"
            remedy = "Waits are nanoseconds, up to 146 years in all: check the unit"
            raise self.place.refuse_input(found, remedy)


def _with_source_rows(place: Place, table: pa.Table) -> Place:
    """Imported rows may have moved: complaints name the source's row too where it differs."""
    source_rows = integers(table, "source_row")
    if source_rows is None:
        return place

    def in_source(row: int) -> str | None:
        there = int(source_rows[row - place.first_row])
        return f"source row {there}" if there not in {row, NOT_KNOWN} else None

    return replace(place, also=in_source)


def check_table(table: pa.Table, hash_block_tokens: int | None, source: str) -> None:
    """Check a whole trace."""
    checks = Checks.of(source, hash_block_tokens)
    checks.feed(table)
    checks.finish()


def _check_values(table: pa.Table, place: Place) -> None:
    """Nothing required is null, nothing falls below its least value."""
    for column in COLUMNS:
        if column.name not in table.column_names or not column.is_flat:
            continue
        name, has_value = column.name, known(table, column.name)
        if has_value is not None and column.required:
            place.refuse_where(~has_value, name, lambda _row: "is null", "Every row needs a value")
        _check_least(table, name, place)
        _check_most(table, name, place)
    _check_cap(table, place)


def _check_least(table: pa.Table, name: str, place: Place) -> None:
    least = _LEAST.get(name, 0)
    values, has_value = integers(table, name), known(table, name)
    if least is None or values is None or has_value is None:
        return
    remedy = _REMEDY.get(name, "Times, counts and labels are never negative: correct the row")
    place.refuse_where(
        has_value & (values < least),
        name,
        lambda row: f"{values[row]} is below {least}, the least that can be",
        remedy,
    )


def _check_most(table: pa.Table, name: str, place: Place) -> None:
    values, has_value = integers(table, name), known(table, name)
    if values is None or has_value is None or not name.endswith("_ns"):
        return
    place.refuse_where(
        has_value & (values > MOST_NS),
        name,
        lambda row: f"{values[row]} is above {MOST_NS}, 36 years, the most that can be",
        "Times are nanoseconds since the trace began: check the unit",
    )


def _check_cap(table: pa.Table, place: Place) -> None:
    caps = integers(table, "max_tokens")
    if caps is None:
        return
    outputs = required(table, "output_tokens")
    place.refuse_where(
        caps < outputs,
        "max_tokens",
        lambda row: f"{caps[row]} is below the {outputs[row]} tokens that were generated",
        "A request cannot emit more than its cap: correct one of the two",
    )
