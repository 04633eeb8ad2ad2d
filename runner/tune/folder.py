"""Where a search is kept, so that it can be taken up again: `tune.json`, beside it the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from schedbench.errors import RunStoreError
from schedbench.results.files import write_json
from schedbench.results.report.sweep_folder import TUNE
from schedbench.runner.sweep_folder import new_sweep_folder, resumed_sweep_folder

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.workloads.trace import Trace


def new_folder(trace: Trace, about: dict[str, Any], out: Path | None) -> Path:
    """Make a folder like that of a sweep. Raises OutputError if it holds anything."""
    path = new_sweep_folder(trace, {"command_line": about.get("command_line")}, out, kind="tune")
    write_json(path / TUNE, about)
    return path


def resumed_folder(trace: Trace, about: dict[str, Any], path: Path) -> Path:
    """The folder of an earlier search. Raises RunStoreError if it searched something else."""
    resumed_sweep_folder(trace, path)
    try:
        known = orjson.loads((path / TUNE).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise RunStoreError(
            f"{path} is no search: it has no readable {TUNE}. Name a folder that `schedbench tune` "
            "made"
        ) from error
    ours = orjson.loads(orjson.dumps(about))
    apart = [name for name in known if name != "command_line" and known[name] != ours.get(name)]
    if apart:
        raise RunStoreError(
            f"{path} holds a search of other {', '.join(apart)}; give the same ones, or leave "
            "--resume out"
        )
    return path
