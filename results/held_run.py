"""What Python code hands over as a run: a folder, a stored run, or one that a replay returned."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from schedbench.results.stored_run import StoredRun


@runtime_checkable
class ReplayedRun(Protocol):
    """A run as `schedbench.replay` returns it."""

    summary: dict[str, Any]
    manifest: dict[str, Any]
    path: Path | None

    @property
    def passes(self) -> pa.Table: ...
    @property
    def requests(self) -> pa.Table: ...
    @property
    def itl(self) -> pa.Table: ...


@dataclass(frozen=True)
class HeldRun(StoredRun):
    """A run whose tables are in memory."""

    held: ReplayedRun | None = None

    def passes(self, columns: Sequence[str] | None = None) -> pa.Table:
        return _of(self.held.passes if self.held else None, columns)

    def requests(self, columns: Sequence[str] | None = None) -> pa.Table:
        return _of(self.held.requests if self.held else None, columns)

    def itl(self) -> pa.Table:
        return _of(self.held.itl if self.held else None, None)


def _of(table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    return table if columns is None else table.select(list(columns))


def as_stored(run: object, number: int) -> StoredRun:
    """The run, read from its folder where it has one; `number` names one that has none.

    Raises:
        TypeError: it is no run.
        RunStoreError: the folder holds none.
    """
    match run:
        case StoredRun():
            return run
        case str() | Path():
            return StoredRun.open(run)
        case ReplayedRun(path=None):
            return HeldRun(Path(f"run {number}"), run.manifest, run.summary, run)
        case ReplayedRun():
            return StoredRun.open(str(run.path))
    raise TypeError(
        f"a run is what schedbench.replay returns, or the path of a run folder; this is a "
        f"{type(run).__name__}"
    )
