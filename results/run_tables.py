"""The tables of a finished run: in memory where they fit, else read from its folder."""

from dataclasses import dataclass

from schedbench.results.memory_log import MemoryRun
from schedbench.results.parts import Rows
from schedbench.results.run_store import RunFolder
from schedbench.results.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class RunTables:
    passes: Rows
    requests: Rows
    itl: Rows


def tables_of(sink: RunFolder | MemoryRun) -> RunTables:
    """What was written to a sink that is closed."""
    if isinstance(sink, MemoryRun):
        return RunTables(*(log.table() for log in (sink.passes, sink.requests, sink.itl)))
    stored = StoredRun.open(sink.path, allow_incomplete=True)
    return RunTables(
        _either(sink.passes.kept(), stored.passes_on_disk()),
        _either(sink.requests.kept(), stored.requests_on_disk()),
        _either(sink.itl.kept(), stored.itl_on_disk()),
    )


def _either(table: Rows | None, on_disk: Rows) -> Rows:
    return on_disk if table is None else table
