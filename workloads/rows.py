"""Some rows of a trace, as a trace again."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schedbench.workloads.arrays import integers, known, required
from schedbench.workloads.trace import Trace

Mask = npt.NDArray[np.bool_]


def keep_rows(trace: Trace, keep: Mask, step: Mapping[str, Any]) -> Trace:
    """The marked rows, time beginning at 0 again and `after` pointing at the new row numbers.

    A row whose predecessor is dropped becomes open loop: it loses `after` and `think_ns` and comes
    at its recorded arrival. `step` is recorded with the counts and the shift.
    """
    table = trace.table.filter(pa.array(keep))
    table, orphans = _renumber_after(table, keep)
    shift = int(required(table, "arrival_ns").min())
    for name in ("arrival_ns", "added_ns"):
        if trace.has(name):
            times = required(table, name) - shift
            table = replace_column(table, name, pa.array(times, mask=~known_rows(table, name)))
    counts = {"rows_dropped": trace.num_requests - table.num_rows, "made_open_loop": orphans}
    return trace.with_table(table, {**step, **counts, "shift_ns": shift}, shift_ns=shift)


def _renumber_after(table: pa.Table, keep: Mask) -> tuple[pa.Table, int]:
    """The kept rows with `after` renumbered, and how many lost the row they wait for."""
    after = integers(table, "after")
    if after is None:
        return table, 0
    new_row = np.where(keep, np.cumsum(keep) - 1, -1)
    had = after >= 0
    renumbered = np.where(had, new_row[np.maximum(after, 0)], -1)
    alone = renumbered < 0
    table = replace_column(table, "after", pa.array(renumbered, mask=alone))
    think = integers(table, "think_ns")
    if think is not None:
        unknown = alone | ~known_rows(table, "think_ns")
        table = replace_column(table, "think_ns", pa.array(think, mask=unknown))
    return table, int(np.count_nonzero(had & alone))


def known_rows(table: pa.Table, name: str) -> Mask:
    has_value = known(table, name)
    return np.ones(table.num_rows, dtype=np.bool_) if has_value is None else has_value


def replace_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
