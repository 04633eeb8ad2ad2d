"""A run on disk: one folder, one writer.

runs/20260731T141503Z-azure_conv-1f0c9a2e/
  manifest.json   what was run: trace, flags, versions, command line; `complete` at the end
  summary.json    its numbers
  passes/  timings/  requests/  itl/     Parquet parts, see docs/pass-log.md
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from schedbench.errors import OutputError
from schedbench.results.files import write_json, writing
from schedbench.results.part_writer import PartWriter
from schedbench.results.pass_log import (
    ITL_COLUMNS,
    PASS_COLUMNS,
    SCHEMA_VERSION,
    TIMING_COLUMNS,
    request_columns,
)

RUNS: Final = Path("runs")
MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
SWEEP: Final = "sweep.json"
POINTS: Final = "points"
"""Of a sweep's folder: what it is about, and its run folders."""
_FLAGS_DIGITS: Final = 8
_LONGEST_TRACE_NAME: Final = 60


class RunFolder:
    """A run being written. As a context manager it closes its tables, also after a failure."""

    def __init__(self, path: Path, wait_labels: Sequence[str] = ()) -> None:
        self.path = path
        self.passes = PartWriter(path / "passes", PASS_COLUMNS)
        self.timings = PartWriter(path / "timings", TIMING_COLUMNS)
        self.requests = PartWriter(path / "requests", request_columns(wait_labels))
        self.itl = PartWriter(path / "itl", ITL_COLUMNS)
        self._tables = (self.passes, self.timings, self.requests, self.itl)
        self._manifest: dict[str, Any] = {}
        self._closed = False
        self._began = datetime.now(UTC).isoformat(timespec="microseconds")

    @classmethod
    def create(
        cls,
        out: Path | None,
        *,
        trace_name: str,
        flags_digest: str,
        wait_labels: Sequence[str] = (),
    ) -> Self:
        """`out`, or a new folder under `runs/`. Raises OutputError if `out` holds anything.

        Whoever makes the folder `passes` owns the run: of two writers, one is refused.
        """
        path = _new_folder(trace_name, flags_digest) if out is None else _given_folder(out)
        with writing(path):
            try:
                (path / "passes").mkdir()
            except FileExistsError as error:
                raise _taken(path) from error
            for name in ("timings", "requests", "itl"):
                (path / name).mkdir()
        return cls(path, wait_labels)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Early, so that a killed run still says what it was.

        `manifest["trace"]["digest"]` tells whether two runs can be compared pass by pass;
        `manifest["scheduler"]`, flags by name, is what a comparison says they differ in.
        """
        self._manifest = dict(manifest)
        self._store_manifest(complete=False)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.path / SUMMARY, summary)

    def complete(self) -> None:
        """Close the tables and mark the run as complete. Raises OutputError."""
        self.close()
        self._store_manifest(complete=True)

    def close(self) -> None:
        """Write what the tables still hold."""
        if not self._closed:
            self._closed = True
            for table in self._tables:
                table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if isinstance(error, KeyboardInterrupt):
            error.add_note(interrupted(self.path))

    def _store_manifest(self, *, complete: bool) -> None:
        head = {"schema_version": SCHEMA_VERSION, "complete": complete, "began": self._began}
        write_json(self.path / MANIFEST, {**head, **self._manifest})


def interrupted(path: Path) -> str:
    """What can be done with the folder of a run that did not come to its end."""
    return (
        f"what was recorded is kept in {path}: `schedbench explain {path}` reads it. To run the "
        "replay again, remove that folder or give another --out"
    )


def _new_folder(trace_name: str, flags_digest: str) -> Path:
    """`runs/<UTC time>-<trace>-<flags>`; a number follows where that name is taken."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    trace = re.sub(r"[^A-Za-z0-9._]+", "_", trace_name)[:_LONGEST_TRACE_NAME] or "trace"
    name = f"{stamp}-{trace}-{flags_digest[:_FLAGS_DIGITS]}"
    with writing(RUNS):
        RUNS.mkdir(exist_ok=True)
    for number in count(1):
        path = RUNS / (name if number == 1 else f"{name}-{number}")
        with writing(path):
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    raise AssertionError


def _given_folder(out: Path) -> Path:
    with writing(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise _taken(out)
        out.mkdir(parents=True, exist_ok=True)
    return out


def _taken(path: Path) -> OutputError:
    what = "holds files already" if path.is_dir() else "is a file"
    return OutputError(
        f"{path} {what}, and a run is never written over another. "
        "Give a new folder with --out, or leave --out away to get one under runs/."
    )
