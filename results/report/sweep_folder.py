"""A sweep read back from its folder: every point with its run, or why it has none.

A search is read back too: its axes are the flags that it searched, at the values that it ran.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import orjson

from schedbench.errors import RunStoreError
from schedbench.results.run_store import MANIFEST, POINTS, SWEEP
from schedbench.results.stored_run import StoredRun
from schedbench.results.sweep_sheet import SweepPoint

TUNE: Final = "tune.json"
POINT_LOG: Final = "points.jsonl"
NOT_THERE: Final = "no run: the sweep ended before it"


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """The axes of a grid and its points, in the grid's order; `paths` where a point has a run."""

    path: Path
    trace: Mapping[str, Any]
    command_line: tuple[str, ...]
    axes: Mapping[str, Sequence[Any]]
    points: tuple[SweepPoint, ...]
    paths: tuple[Path | None, ...]
    flags: Mapping[str, Any]  # those that are the same at every point
    derived: Mapping[str, Sequence[Any]]  # those that each point derives anew: the values it got
    releases: tuple[str, ...]  # whose decisions its runs are, in words
    kind: str = "Sweep"


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP).is_file()


def open_sweep(folder: Path) -> StoredSweep:
    """Raises RunStoreError where there is no sweep, a damaged one, or one without a run."""
    about = _about(folder)
    axes = about["axes"]
    is_search = (folder / TUNE).is_file()
    noted = _noted(folder, axes)
    runs = _runs(folder, axes, noted)
    if not runs:
        raise RunStoreError(f"{folder} holds no run yet. Let the sweep finish a point first.")
    grid = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    known = {_key(point): runs.get(_key(point)) for point in grid}
    points = [(point, known[_key(point)]) for point in grid]
    points += [(dict(zip(axes, k, strict=True)), run) for k, run in runs.items() if k not in known]
    if is_search:
        points = [(_flags_at(run, axes), run) for run in runs.values()]
        axes = {name: _in_order(flags[name] for flags, _ in points) for name in axes}
        points.sort(key=lambda each: [axes[name].index(value) for name, value in each[0].items()])
    flags, derived = _flags_beside(list(runs.values()), axes)
    return StoredSweep(
        path=folder,
        trace=about["trace"],
        command_line=tuple(about.get("command_line", ())),
        axes=axes,
        points=tuple(
            SweepPoint(flags, *_outcome(run, noted.get(_key(flags), {}).get("reason", NOT_THERE)))
            for flags, run in points
        ),
        paths=tuple(None if run is None else run.path for _, run in points),
        flags=flags,
        derived=derived,
        releases=tuple(dict.fromkeys(run.release for run in runs.values())),
        kind="Search" if is_search else "Sweep",
    )


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = orjson.loads((folder / SWEEP).read_bytes())
        if (folder / TUNE).is_file():
            about["axes"] = _searched(folder)
        if isinstance(about["axes"], dict) and isinstance(about["trace"], dict):
            return dict(about)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RunStoreError(f"{folder / SWEEP} cannot be read: {error}") from error
    raise RunStoreError(f"{folder / SWEEP} names no axes. Run the sweep again.")


def _searched(folder: Path) -> dict[str, list[Any]]:
    """What a search varied, without values; one for the highest rate varies the speed-up."""
    space = orjson.loads((folder / TUNE).read_bytes())["space"]
    return {name: [] for name in space or ("speedup",)}


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Each value once; numbers by size, what is unset and words before them by name."""
    return sorted(
        set(values),
        key=lambda value: (0, value, "") if isinstance(value, int | float) else (-1, 0, str(value)),
    )


def _flags_at(run: StoredRun, axes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a run on the axes; the time of a pass stands under another name there."""
    flags = run.flags | {"cost": run.flags.get("time")}
    return {name: flags.get(name) for name in axes}


def _key(flags: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in flags.values())


def _noted(folder: Path, axes: Mapping[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    """What the sweep wrote of each point: the name of its run's folder, why it has no result.

    A line that was cut off in the middle says nothing.
    """
    log = folder / POINT_LOG
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in log.read_bytes().splitlines() if log.is_file() else ():
        with suppress(orjson.JSONDecodeError):
            told = orjson.loads(line)
            key = _key({name: told["point"].get(name) for name in axes})
            found[key] = {**found.get(key, {}), **told}
    return found


def _runs(
    folder: Path,
    axes: Mapping[str, Any],
    noted: Mapping[tuple[str, ...], Mapping[str, Any]],
) -> dict[tuple[str, ...], StoredRun]:
    """The runs by their point: as the sweep noted it, else as their manifests have it."""
    keys = {each["folder"]: key for key, each in noted.items() if "folder" in each}
    found = {}
    for path in sorted((folder / POINTS).glob(f"*/{MANIFEST}")):
        run = StoredRun.open(path.parent, allow_incomplete=True)
        found[keys.get(path.parent.name) or _key(_flags_at(run, axes))] = run
    return found


def _outcome(run: StoredRun | None, failure: str) -> tuple[Mapping[str, Any] | None, str]:
    """The summary of a run, or the reason why there is none."""
    if run is None:
        return None, failure
    if run.is_complete:
        return run.summary, ""
    return None, str(run.manifest.get("stalled") or "the replay was stopped")


def _flags_beside(
    runs: Sequence[StoredRun], axes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The flags that no axis varies: those that are the same in every run, and the others."""
    apart = {*axes, *(("time",) if "cost" in axes else ())}
    names = dict.fromkeys(name for run in runs for name in run.flags if name not in apart)
    values = {name: _in_order(_hashable(run.flags.get(name)) for run in runs) for name in names}
    same = {name: runs[0].flags.get(name) for name in names if len(values[name]) == 1}
    return same, {name: found for name, found in values.items() if name not in same}


def _hashable(value: object) -> object:
    return value if isinstance(value, Hashable) else str(value)
