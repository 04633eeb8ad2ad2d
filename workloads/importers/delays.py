"""Turns that state how long after the turn before them they come, instead of a time."""

import numpy as np
import pyarrow as pa

from schedbench.workloads.importers.columns_of import nullable, replaced, with_columns
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.sessions import Sessions, in_sessions
from schedbench.workloads.place import Place


def arrivals_by_delay(table: pa.Table, place: Place) -> pa.Table:
    """Fill in arrivals of rows without a time: the one before in the session, plus the delays.

    time    10    -    -   40    -        10 is the first turn of the session
    delay    -    5    7    -    2
    arrival 10   15   22   40   42        the earliest that it can be: answers take time too
    """
    stated = table.column("_has_time").to_numpy()
    if stated.all():
        return table
    sessions = in_sessions(table.column("_label"))
    _refuse_unplaced(table, sessions, place)
    order = np.argsort(sessions.number, kind="stable")
    delays = np.where(stated, 0, table.column("_delay").to_numpy())[order]
    elapsed = np.cumsum(delays)
    # The last row before it, in its session, that states a time.
    anchor = np.maximum.accumulate(np.where(stated[order], np.arange(order.size), 0))
    times = table.column("arrival_ns").to_numpy()[order]
    arrivals = np.empty_like(times)
    arrivals[order] = times[anchor] + elapsed - elapsed[anchor]
    return replaced(table, "arrival_ns", pa.array(arrivals))


def _refuse_unplaced(table: pa.Table, sessions: Sessions, place: Place) -> None:
    stated = table.column("_has_time").to_numpy()
    place.refuse_where(
        ~stated & (sessions.previous < 0),
        "timestamp",
        lambda _row: "is missing, and there is no turn before it in a session",
        "Only later turns of a session can do without a time",
    )
    place.refuse_where(
        ~stated & ~table.column("_has_delay").to_numpy(),
        "timestamp",
        lambda _row: "is missing, and so is delay",
        "State one of the two",
    )


def follow_by_delay(table: pa.Table, sessions: Sessions, report: Report) -> pa.Table:
    """Rows with a delay wait for the turn before them (closed loop); the others come by clock."""
    delayed = table.column("_has_delay").to_numpy()
    waits = delayed & (sessions.previous >= 0)
    report.change(
        int((delayed & ~waits).sum()),
        "first turns that state a delay, which follows nothing and was left out",
    )
    if not waits.any():
        return table
    timed = int((~table.column("_has_time").to_numpy()).sum())
    report.change(timed, "rows without a time, placed after the turn before them by their delay")
    think = table.column("_delay").to_numpy()
    return with_columns(
        table,
        after=nullable(np.where(waits, sessions.previous, -1)),
        think_ns=pa.array(think, mask=~waits),
    )
