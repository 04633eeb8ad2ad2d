"""How requests are called when people are told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from schedbench.runner.requests import Row
    from schedbench.sched.request import Request
    from schedbench.workloads.trace import Trace


def name_of(request: Request) -> str:
    """The trace's own label, with the row where the two differ."""
    return called(request.tag)


def called(row: Row) -> str:
    number = str(row.row)
    return number if row.request_id == number else f"{row.request_id} (row {number})"


def find_row(trace: Trace, text: str) -> int:
    """The row of a request by the trace's own label, else by its number. Raises UsageError."""
    if trace.has("request_id"):
        labels = trace.table.column("request_id").to_pylist()
        if text in labels:
            return int(labels.index(text))
    if not text.isdecimal() or int(text) >= trace.num_requests:
        raise UsageError(
            f"--request {text}: the run has no such request; give a request_id of the trace, or a "
            f"row from 0 to {trace.num_requests - 1}"
        )
    return int(text)
