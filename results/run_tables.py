"""The tables of a finished run: in memory where they fit, else read from its folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from schedbench.results.memory_log import MemoryRun
from schedbench.results.run_store import RunFolder
from schedbench.results.stored_run import StoredRun


@dataclass(frozen=True)
class RunTables:
    """Each table, and, to sum it up, the same or one that is read a column at a time."""

    passes: Callable[[], pa.Table]
    requests: Callable[[], pa.Table]
    itl: Callable[[], pa.Table]
    passes_for_sums: Callable[[], Any]
    requests_for_sums: Callable[[], Any]

    @classmethod
    def of(cls, passes: pa.Table, requests: pa.Table, itl: pa.Table) -> Self:
        """Tables that are in memory."""
        return cls(lambda: passes, lambda: requests, lambda: itl, lambda: passes, lambda: requests)


def tables_of(sink: RunFolder | MemoryRun) -> RunTables:
    """What was written to a sink that is closed."""
    if isinstance(sink, MemoryRun):
        return RunTables.of(*(log.table() for log in (sink.passes, sink.requests, sink.itl)))
    stored = StoredRun.open(sink.path, allow_incomplete=True)
    passes, requests, itl = (log.kept() for log in (sink.passes, sink.requests, sink.itl))
    return RunTables(
        _either(passes, stored.passes),
        _either(requests, stored.requests),
        _either(itl, stored.itl),
        _either(passes, stored.passes_on_disk),
        _either(requests, stored.requests_on_disk),
    )


def _either(table: pa.Table | None, read: Callable[[], Any]) -> Callable[[], Any]:
    return read if table is None else lambda: table
