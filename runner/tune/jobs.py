"""One replay of a search, as a worker process runs it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from schedbench.errors import SchedbenchError
from schedbench.results.stored_run import StoredRun
from schedbench.runner.manifest import vars_of
from schedbench.runner.run import ReplayOptions, replay
from schedbench.workloads.transform import slice_trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from schedbench.runner.api import Runner
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

_NAME_LENGTH = 80
_UNTOLD = ("command_line", "assumed", "outputs", "request_events", "short_way")


@dataclass(frozen=True)
class Job:
    """A configuration to replay; `limit`: only the first requests, which is not kept."""

    config: SchedulerConfig
    options: ReplayOptions
    runner: Runner
    folder: Path | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Result:
    """A summary, or why there is none."""

    summary: dict[str, Any] | None = None
    reason: str = ""
    path: Path | None = None


def run_job(trace: Trace, job: Job) -> Result:
    """Make one replay; that it stalls or cannot be is a result as well."""
    try:
        if job.limit is not None:
            trace = slice_trace(trace, limit=job.limit)
        run = replay(trace, job.config, job.runner, options=job.options, out=job.folder)
    except SchedbenchError as error:
        return Result(reason=str(error))
    return Result(run.summary, path=run.path)


def folder_of(root: Path | None, job: Job, trace: Trace, point: Mapping[str, Any]) -> Path | None:
    """Where a job's run is kept: what varies, and a digest of all that decides it."""
    if root is None:
        return None
    options = {k: v for k, v in dataclasses.asdict(job.options).items() if k not in _UNTOLD}
    options["events"] = [vars_of(event) for event in job.options.events]
    decided = [trace.digest, job.config.as_dict(), options, repr(job.runner)]
    digest = hashlib.sha256(orjson.dumps(decided, option=orjson.OPT_SORT_KEYS)).hexdigest()
    told = ",".join(f"{name}={value}" for name, value in point.items())
    name = re.sub(r"[^A-Za-z0-9=.,_+-]+", "_", told)[:_NAME_LENGTH]
    return root / "points" / f"{name}-{digest[:8]}"


def kept(folder: Path | None) -> Result | None:
    """What an earlier search left complete; what it left unfinished is cleared away."""
    if folder is None or not folder.exists():
        return None
    try:
        run = StoredRun.open(folder)
    except SchedbenchError:
        shutil.rmtree(folder)
        return None
    return Result(run.summary, path=folder)
