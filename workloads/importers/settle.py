"""From source rows to trace rows: drop what is not a request, sort by time, begin at 0.

source row     0 1 2 3 4        2 was dropped, 3 stood too late in the file
trace row      0 1 2 3          its `source_row`: 0 3 1 4; `after` is renamed along
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import required
from schedbench.workloads.importers.columns_of import nullable, replaced
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.zero_output import without_zero_outputs
from schedbench.workloads.place import Place

YEAR_NS = 366 * 86_400 * 10**9
_TIMES = ("arrival_ns", "added_ns")


def settle(
    table: pa.Table, options: ImportOptions, place: Place, report: Report
) -> tuple[pa.Table, int]:
    """Rows in their final order, and the source clock's time of `arrival_ns` 0."""
    source_rows = table.num_rows
    table = table.append_column("source_row", pa.array(np.arange(source_rows)))
    _refuse_impossible(table, place)
    _refuse_two_clocks(table, place)
    late = _late_rows(table, options, place)
    table = without_zero_outputs(table, options, place, report)
    if late:
        table = table.take(pa.array(np.argsort(_order_times(table), kind="stable")))
        report.change(late, "rows out of order, sorted with ties in the file's order")
    table = _with_rows_renamed(table, source_rows, place, report)
    return _from_zero(table)


def _refuse_impossible(table: pa.Table, place: Place) -> None:
    prompts, outputs = required(table, "prompt_tokens"), required(table, "output_tokens")
    place.refuse_where(
        prompts < 1,
        "prompt_tokens",
        lambda row: f"{prompts[row]} prompt tokens; a request has at least one",
        "Drop or correct the row",
    )
    place.refuse_where(
        outputs < 0,
        "output_tokens",
        lambda row: f"{outputs[row]} output tokens; counts are never negative",
        "Drop or correct the row",
    )


def _refuse_two_clocks(table: pa.Table, place: Place) -> None:
    """Times over a year apart come from two clocks, such as Unix time and time since start."""
    own = {name: _filled(table, name) for name in _TIMES if name in table.column_names}
    every = np.concatenate(list(own.values()))
    if int(every.max()) - int(every.min()) <= YEAR_NS:
        return
    typical = int(np.quantile(every, 0.5, method="inverted_cdf"))  # a time that a row has
    for name, times in own.items():
        _refuse_far_from(typical, times, name, place)


def _refuse_far_from(typical: int, times: npt.NDArray[np.int64], name: str, place: Place) -> None:
    place.refuse_where(
        np.abs(times - typical) > YEAR_NS // 2,
        name,
        lambda row: (
            f"time {times[row] / 1e9:.3f} s lies far from the median "
            f"{typical / 1e9:.3f} s, and all times span over a year"
        ),
        "A file has one clock: convert the times that are on another, or check the unit",
    )


def _filled(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    times = pc.fill_null(table.column(name), table.column("arrival_ns"))
    numbers: npt.NDArray[np.int64] = times.to_numpy()
    return numbers


def _order_times(table: pa.Table) -> npt.NDArray[np.int64]:
    return _filled(table, "added_ns" if "added_ns" in table.column_names else "arrival_ns")


def _late_rows(table: pa.Table, options: ImportOptions, place: Place) -> int:
    """How many rows stand after one with a later time."""
    times = _order_times(table)
    latest = np.maximum.accumulate(times)
    if options.strict_order:
        place.refuse_where(
            times < latest,
            "arrival_ns",
            lambda row: f"{times[row]} ns comes after {latest[row]} ns",
            "Sort the file, or leave --strict-order out to have it sorted",
        )
    return int((times < latest).sum())


def _with_rows_renamed(table: pa.Table, source_rows: int, place: Place, report: Report) -> pa.Table:
    """`after` from source rows to trace rows; null where that row was dropped."""
    if "after" not in table.column_names:
        return table
    before = pc.fill_null(table.column("after"), -1).to_numpy()
    if (before >= source_rows).any():
        found = f"names row {before.max()}, but the file has {source_rows:,} rows, counted from 0"
        raise place.refuse_column("after", found, "Name an earlier row")
    renamed = np.full(source_rows + 1, -1)  # the last place stands for "none"
    renamed[required(table, "source_row")] = np.arange(table.num_rows)
    after = renamed[before]
    lost = (before >= 0) & (after < 0)
    report.change(int(lost.sum()), "rows after a dropped row, which now wait for none")
    if "think_ns" in table.column_names:
        think = pc.if_else(pa.array(lost), None, table.column("think_ns"))
        table = replaced(table, "think_ns", think)
    return replaced(table, "after", nullable(after))


def _from_zero(table: pa.Table) -> tuple[pa.Table, int]:
    origin = pc.min(table.column("arrival_ns"))
    for name in _TIMES:
        if name in table.column_names:
            table = replaced(table, name, pc.subtract(table.column(name), origin))
    return table, int(origin.as_py())
