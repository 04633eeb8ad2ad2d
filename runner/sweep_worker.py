"""One point of a sweep, as a worker process runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedbench.errors import SchedbenchError, StallError
from schedbench.runner.run import replay as run_replay

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace


@dataclass(frozen=True)
class Job:
    """One point, ready to run; `folder` is where its run is kept, if it is."""

    index: int
    point: Mapping[str, Any]
    config: SchedulerConfig
    options: ReplayOptions
    folder: Path | None = None


def replay_job(trace: Trace, job: Job) -> dict[str, Any]:
    """Status, summary, warnings and reason of a point; no error of a point ends the sweep."""
    try:
        run = run_replay(trace, job.config, options=job.options, out=job.folder)
    except StallError as error:
        return {"status": "stalled", "reason": str(error)}
    except SchedbenchError as error:
        return {"status": "refused", "reason": str(error)}
    except Exception as error:  # noqa: BLE001 - the other points go on
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {"status": "complete", "summary": run.summary, "warnings": run.warnings}
