"""One process of a sweep: it reads the trace once and replays the points it is given."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedbench.errors import SchedbenchError, StallError
from schedbench.runner.run import replay as run_replay
from schedbench.workloads.store import read_trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

_shared: list[Trace] = []


@dataclass(frozen=True)
class Job:
    """One point, ready to run; `folder` is where its run is kept, if it is."""

    index: int
    point: Mapping[str, Any]
    config: SchedulerConfig
    options: ReplayOptions
    folder: Path | None = None


def load_shared(path: str, known_path: str | None) -> None:
    """Read the trace when the process starts; `known_path` is where the user has it.

    An interrupt is the parent's to deal with: it ends this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _shared[:] = [replace(read_trace(path), path=known_path)]


def replay_job(job: Job, trace: Trace | None = None) -> dict[str, Any]:
    """Status, summary, warnings and reason of a point; no error of a point ends the sweep."""
    try:
        run = run_replay(trace or _shared[0], job.config, options=job.options, out=job.folder)
    except StallError as error:
        return {"status": "stalled", "reason": str(error)}
    except SchedbenchError as error:
        return {"status": "refused", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 - the other points go on
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {"status": "complete", "summary": run.summary, "warnings": run.warnings}
