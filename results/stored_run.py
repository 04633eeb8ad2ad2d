"""A run read back from its folder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa

from schedbench.errors import RunStoreError
from schedbench.results.columns import Column
from schedbench.results.part_writer import PART_GLOB
from schedbench.results.parts import TableOnDisk
from schedbench.results.pass_log import (
    ITL_COLUMNS,
    PASS_COLUMNS,
    SCHEMA_VERSION,
    TIMING_COLUMNS,
    request_columns,
)
from schedbench.results.pass_metrics import told_metrics
from schedbench.results.run_store import MANIFEST, POINTS, RUNS, SUMMARY, SWEEP, interrupted

OWN_FLAGS = (
    "speedup",
    "arrivals",
    "think_ns",
    "too_long",
    "vllm_version",
    "engine",
    "policy_class",
)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run folder. Tables are read when asked for, `columns` of them where given."""

    path: Path
    manifest: dict[str, Any]
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path, *, allow_incomplete: bool = False) -> Self:
        """Raises RunStoreError where there is no run, a damaged one, or one of another version."""
        folder = Path(path)
        if not (folder / MANIFEST).is_file():
            raise RunStoreError(_why_no_run(folder))
        manifest = _read_json(folder / MANIFEST)
        _check_version(folder, manifest.get("schema_version"))
        if not manifest.get("complete") and not allow_incomplete and "recording" not in manifest:
            raise RunStoreError(_why_incomplete(folder, manifest.get("stalled")))
        summary = folder / SUMMARY
        run = cls(folder, manifest, _read_json(summary) if summary.is_file() else {})
        if run.recording is not None and not run.summary:
            return replace(run, summary=told_metrics(run.passes_on_disk()))
        return run

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def trace_digest(self) -> str:
        """Of the trace that was replayed; empty where the manifest does not say."""
        return str(self.manifest.get("trace", {}).get("digest", ""))

    @property
    def flags(self) -> dict[str, Any]:
        """What the replay was given: the scheduler's flags by vLLM's names, then its own."""
        own = {name: self.manifest.get(name) for name in OWN_FLAGS if name in self.manifest}
        if "engine" in self.manifest:
            own["scheduler"] = self.manifest["engine"]
        time = self.manifest.get("time", {}).get("description")
        return {**self.manifest.get("scheduler", {}), **own, **({"time": time} if time else {})}

    @property
    def release(self) -> str:
        """Whose decisions these are, in words: a release of vLLM, or a mixture."""
        version = self.manifest.get("vllm_version")
        told = f"vLLM {version}" if version else "a release that is not told"
        return str(self.manifest.get("release") or told)

    @property
    def tells_flags(self) -> bool:
        """Whether it is known how the scheduler was set; a server's log does not say."""
        return bool(self.manifest.get("scheduler"))

    @property
    def recording(self) -> dict[str, Any] | None:
        """What a recorded server's manifest says of the recording; None for a replay.

        What is in the files of an interrupted one is whole.
        """
        return self.manifest.get("recording")

    def of_a_replay(self, what: str) -> Self:
        """This run; `what` says who needs it. Raises RunStoreError for one that a server wrote."""
        if self.recording is None:
            return self
        raise RunStoreError(
            f"{self.path} was written by a server, and {what} needs a replay: import its trace "
            "with `schedbench trace import`, replay that, and name the replay's folder."
        )

    @property
    def is_complete(self) -> bool:
        return bool(self.manifest.get("complete"))

    def passes_on_disk(self) -> TableOnDisk:
        return self._on_disk("passes", PASS_COLUMNS)

    def requests_on_disk(self) -> TableOnDisk:
        return self._on_disk("requests", request_columns(()))

    def itl_on_disk(self) -> TableOnDisk:
        return self._on_disk("itl", ITL_COLUMNS)

    def passes(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.passes_on_disk().whole(columns)

    def timings(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self._on_disk("timings", TIMING_COLUMNS).whole(columns)

    def requests(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.requests_on_disk().whole(columns)

    def itl(self) -> pa.Table:
        return self.itl_on_disk().whole()

    def _on_disk(self, name: str, columns: Sequence[Column]) -> TableOnDisk:
        return TableOnDisk(sorted((self.path / name).glob(PART_GLOB)), columns)


def newest(root: str | Path = RUNS, *, allow_incomplete: bool = False) -> StoredRun:
    """The run under `root` that began last, whatever its folder is called. Raises RunStoreError."""
    folders = [path.parent for path in Path(root).glob(f"*/{MANIFEST}")]
    manifests = [(folder, _read_json(folder / MANIFEST)) for folder in folders]
    known = [each for each in manifests if allow_incomplete or each[1].get("complete")]
    if known:
        folder, _ = max(known, key=lambda each: _began(*each))
        return StoredRun.open(folder, allow_incomplete=allow_incomplete)
    kind = "run" if allow_incomplete else "complete run"
    raise RunStoreError(
        f"{root} holds no {kind}. Make one with `schedbench replay`, or name a run folder."
    )


def _why_no_run(folder: Path) -> str:
    """A sweep holds runs, so one of them is named."""
    if not folder.exists():
        return f"{folder} is not a run: there is no such folder. Name one that a replay wrote."
    if not (folder / SWEEP).is_file():
        return (
            f"{folder} is not a run: it has no {MANIFEST}. "
            "Name a folder that `schedbench replay` wrote."
        )
    points = sorted(path.parent for path in (folder / POINTS).glob(f"*/{MANIFEST}"))
    if not points:
        return f"{folder} is a sweep or a search, not a run, and holds none yet. Let it go on."
    many = f" ({len(points)} in all)" if len(points) > 1 else ""
    return (
        f"{folder} is a sweep or a search, not a run: its runs are the folders in "
        f"{folder / POINTS}. Name one, such as {points[0]}{many}."
    )


def _why_incomplete(folder: Path, stalled: str | None) -> str:
    if not stalled:
        return f"{folder} is incomplete: its replay was stopped; {interrupted(folder)}."
    return (
        f"{folder} is incomplete: its replay stalled, and would again with the same flags "
        f"({stalled}). Name a run that went to its end."
    )


def _began(folder: Path, manifest: dict[str, Any]) -> str:
    """When, in UTC; of a recorded server, whose manifest does not say, when it was written."""
    written = datetime.fromtimestamp((folder / MANIFEST).stat().st_mtime, UTC)
    return str(manifest.get("began") or written.isoformat(timespec="microseconds"))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise RunStoreError(f"{path} cannot be read: {error}. Run the replay again.") from error
    if not isinstance(content, dict):
        raise RunStoreError(f"{path} does not hold an object. Run the replay again.")
    return content


def _check_version(folder: Path, version: object) -> None:
    if version == SCHEMA_VERSION:
        return
    raise RunStoreError(
        f"{folder} has schema version {version}, and this schedbench reads {SCHEMA_VERSION}. "
        "Run the replay again, or read it with the schedbench that wrote it."
    )
