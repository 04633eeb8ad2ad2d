"""Golden logs against this project's scheduler: every column of every pass, in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Literal

from schedbench.errors import TraceError
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import read_log
from schedbench.runner.golden_sched import SchedBackend, unsupported_features, version_of
from schedbench.runner.golden_world import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from schedbench.runner.golden_log import GoldenLog, Row

Status = Literal["equal", "different", "unsupported"]
PASSES = "number of passes"
STATS = "stats"
FAULT = "fault"


@dataclass(frozen=True)
class Parting:
    """Where a run leaves its log: pass `index`, the columns, both rows and the pass before them.

    A row is None where that side has ended; `columns` then says `number of passes`. At the end of
    a log, the rows hold its statistics.
    """

    index: int
    columns: tuple[str, ...]
    golden: Row | None
    ours: Row | None
    before: Row | None = None


@dataclass(frozen=True)
class Verified:
    """What became of one log of a release; `passes` are those that were equal."""

    path: Path
    status: Status
    release: str
    passes: int = 0
    parting: Parting | None = None
    missing: list[str] = field(default_factory=list)


def verify(path: Path, progress: Callable[[int], None] | None = None) -> Verified:
    """Run a log's requests, events and clock through the scheduler and compare as it goes.

    Raises TraceError for a file that is no golden log, or that holds no passes.
    """
    log = read_log(path)
    if not log.passes:
        raise TraceError(f"{path}: holds no passes: the scenario was never run. Name another log")
    if missing := unsupported_features(log):
        return Verified(path, "unsupported", version_of(log), missing=missing)
    count, parting = _compare(log, progress)
    status: Status = "equal" if parting is None else "different"
    return Verified(path, status, version_of(log), count, parting)


def _compare(log: GoldenLog, progress: Callable[[int], None] | None) -> tuple[int, Parting | None]:
    if is_head := _is_head(log):
        log = replace(log, header={**log.header, "max_passes": None})
    store = RemoteStore(log.config.get("hold_frees"))
    driver = GoldenDriver(log, SchedBackend(log, store), store)
    before: Row | None = None
    index = 0
    rows = islice(_rows(driver), len(log.passes) if is_head else None)
    for index, (ours, golden) in enumerate(zip_longest(rows, log.passes)):
        if columns := differing(golden, ours):
            return index, Parting(index, columns, golden, ours, before)
        before = ours
        if progress is not None:
            progress(index + 1)
    count = index + 1
    wanted = log.header.get("stats")
    if not is_head and wanted is not None and driver.stats != wanted:
        columns = (STATS, *differing(wanted, driver.stats))
        return count, Parting(count, columns, wanted, driver.stats, before)
    return count, None


def _is_head(log: GoldenLog) -> bool:
    """Whether the log was cut to its first passes: its statistics are those of the whole run.

    Passes were scheduled behind the last one then, which its second half shows.
    """
    count = log.header.get("max_passes")
    stats = log.header.get("stats") or {}
    return count == len(log.passes) and stats.get("passes", 0) > count


def _rows(driver: GoldenDriver) -> Iterator[Row]:
    """The passes; an assertion that fails in one is a row too, which nothing equals."""
    try:
        yield from driver.passes()
    except Exception as error:  # noqa: BLE001 - the log says that the real class went on
        yield {FAULT: f"{type(error).__name__}: {error}"}


def differing(golden: Row | None, ours: Row | None) -> tuple[str, ...]:
    """The columns in which two rows differ, in the order in which they were logged."""
    if golden is None or ours is None:
        return (PASSES,)
    if FAULT in ours:
        return (FAULT,)
    return tuple(name for name in golden | ours if golden.get(name) != ours.get(name))
