"""Where a sweep is kept: `sweep.json`, a run folder for each point, and `points.jsonl`.

A line there says in which folder a point's run is kept, or why it has no result; the last one of a
point counts, and no reason does where the point has a complete run after all.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from schedbench.errors import OutputError, RunStoreError
from schedbench.results.files import write_json, writing
from schedbench.results.report.sweep_folder import POINT_LOG
from schedbench.results.run_store import POINTS, RUNS, SWEEP
from schedbench.results.setting_text import option_text, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedbench.workloads.trace import Trace


ASSUMED: Final = "assumed"
"""The setting that says what nobody gave: it follows from the others."""


def new_sweep_folder(
    trace: Trace, about: dict[str, Any], out: Path | None = None, *, kind: str = "sweep"
) -> Path:
    """Make `out`, or `runs/<UTC time>-<trace>-<kind>`. Raises OutputError if it holds anything."""
    path = out or _free_name(Path(trace.path or "trace").name.split(".")[0], kind)
    with writing(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise OutputError(
                f"{path} is there already. Give a new folder with --out, or take that {kind} up "
                f"with --resume {path} in its place"
            )
        (path / POINTS).mkdir(parents=True, exist_ok=True)
    write_json(path / SWEEP, {"trace": {"path": trace.path, "digest": trace.digest}, **about})
    return path


def resumed_sweep_folder(trace: Trace, path: Path, fixed: Mapping[str, Any] | None = None) -> Path:
    """The folder of an earlier sweep; other values of its axes are more points of it.

    Raises:
        RunStoreError: it is none, or one of another trace or of other fixed settings.
    """
    try:
        about = orjson.loads((path / SWEEP).read_bytes())
        known = about["trace"]["digest"]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RunStoreError(
            f"{path} is no sweep: it has no readable {SWEEP}. Name a folder that "
            "`schedbench sweep` made"
        ) from error
    if known != trace.digest:
        raise RunStoreError(
            f"{path} holds a sweep of another trace ({about['trace']['path']}, {known}); this one "
            f"is {trace.digest}. Name the same trace, window and reading options, or leave "
            "--resume out"
        )
    _same_settings(path, about.get("fixed"), fixed)
    return path


def _same_settings(
    path: Path, known: Mapping[str, Any] | None, fixed: Mapping[str, Any] | None
) -> None:
    """Points of other settings would stand in one table as if only its axes varied."""
    if known is None or fixed is None:  # of a release that did not keep them
        return
    ours = orjson.loads(orjson.dumps(fixed, option=orjson.OPT_SERIALIZE_NUMPY, default=str))
    apart = [name for name in {**known, **ours} if known.get(name) != ours.get(name)]
    if apart:
        apart = [name for name in apart if name != ASSUMED] or apart
        told = ", ".join(_difference(name, known.get(name), ours.get(name)) for name in apart)
        raise RunStoreError(
            f"{path} holds a sweep of other settings: {told}; give the same ones, or leave "
            "--resume out"
        )


def _difference(name: str, was: Any, now: Any) -> str:  # noqa: ANN401 - of any setting
    if name == "axes":
        first, other = (" and ".join(map(option_text, axes)) for axes in (was or (), now or ()))
        return f"{first} varied there, and {other} here"
    labels = {"schedbench": "the version", ASSUMED: "what was assumed"}
    label = labels.get(name) or option_text(name)
    return f"{label} is {value_text(name, was)} there and {value_text(name, now)} here"


class PointLog:
    """Lines about the points of the sweep in a folder; an equal one is not written twice."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / POINT_LOG
        content = self._path.read_bytes() if self._path.exists() else b""
        self._known = set(content.splitlines())
        self._is_cut = bool(content) and not content.endswith(b"\n")

    def note(self, point: Mapping[str, Any], **told: str) -> None:
        """Add a line: where the point's run is kept, or why it has no result."""
        line = orjson.dumps({"point": dict(point), **told}, option=orjson.OPT_SERIALIZE_NUMPY)
        if line in self._known:
            return
        with writing(self._path), self._path.open("ab") as file:
            file.write(b"\n" * self._is_cut + line + b"\n")
        self._known.add(line)
        self._is_cut = False


def _free_name(trace_name: str, kind: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{stamp}-{re.sub(r'[^A-Za-z0-9._]+', '_', trace_name)[:60] or 'trace'}-{kind}"
    paths = (RUNS / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in paths if not path.exists())
