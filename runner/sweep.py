"""Many configurations of one trace, on all cores.

    points -> refused at once, or -> a worker process -> its run folder -> outcome

Every worker reads the trace once, from one file; a point travels as its few settings. Each point is
stored when it ends, under a name that holds a digest of all that decides it, so that a sweep which
was cut short can be taken up again:

    runs/20260731T141503Z-conv-sweep/
      sweep.json                                     trace, axes, command line
      points/max_num_seqs=64-1f0c9a2e/               a run folder like any other
      points.jsonl                                   in which folder a point is, or why it failed
"""

from __future__ import annotations

import hashlib
import re
import shutil
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import orjson

from schedbench.errors import SchedbenchError, UsageError
from schedbench.results.stored_run import StoredRun
from schedbench.runner.deployment import SERVING_AXES
from schedbench.runner.manifest import vars_of
from schedbench.runner.plugins import source_digest
from schedbench.runner.run import ReplayOptions
from schedbench.runner.sweep_folder import PointLog
from schedbench.runner.sweep_worker import Job, replay_job
from schedbench.runner.workers import Workers, cores
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from schedbench.runner.workers import Pool
    from schedbench.sched.config import SchedulerConfig

Status = Literal["complete", "stalled", "refused", "failed"]
OPTION_AXES = ("speedup", "policy_class", "scheduler", "spec_acceptance")
"""Fields of ReplayOptions that a sweep can vary, beside the scheduler's flags and what serves."""

MOST_POINTS = 10_000
_KILLED: dict[str, Any] = {
    "status": "failed",
    "reason": "a worker process was killed; is there memory for so many? Give --jobs 1",
}
_NAME_LENGTH = 80
_UNTOLD = ("command_line", "outputs", "request_events", "short_way")  # they decide nothing


@dataclass(frozen=True)
class Plan:
    """A grid over `axes` around fixed flags and options.

    An axis is a flag, one of OPTION_AXES, or one of SERVING_AXES, such as `gpu` or `cost`.
    """

    axes: Mapping[str, Sequence[Any]]
    flags: Mapping[str, Any] = field(default_factory=dict)
    options: ReplayOptions = field(default_factory=ReplayOptions)

    def points(self) -> list[dict[str, Any]]:
        """Every combination, the last axis varying fastest. Raises UsageError for too many."""
        count = 1
        for values in self.axes.values():
            count *= len(values)
        if count > MOST_POINTS:
            sizes = " x ".join(f"{len(values)} {name}" for name, values in self.axes.items())
            raise UsageError(f"{sizes} are {count} replays; a sweep makes {MOST_POINTS} at most")
        return [dict(zip(self.axes, each, strict=True)) for each in product(*self.axes.values())]


@dataclass(frozen=True)
class Outcome:
    """What became of a point. Without a summary, `reason` says why."""

    index: int
    point: Mapping[str, Any]
    status: Status
    summary: dict[str, Any] | None = None
    reason: str = ""
    path: Path | None = None
    warnings: Sequence[str] = ()
    is_reused: bool = False


def sweep(
    trace: Trace | object,
    axes: Mapping[str, Sequence[Any]],
    *,
    flags: Mapping[str, Any] | None = None,
    options: ReplayOptions | None = None,
    cost: str | None = None,
    out: Path | None = None,
    workers: int | None = None,
) -> list[Outcome]:
    """Replay a trace at every point of a grid, and return the outcomes in the grid's order.

    Args:
        trace: the requests, as `replay` takes them.
        axes: values by flag, such as `{"max_num_seqs": [64, 128]}`; also `speedup`,
            `policy_class`, `scheduler`, `spec_acceptance`, and the fields of a Deployment: `model`,
            `gpu`, `tensor_parallel_size`, `cost` and so on.
        flags: flags that are the same at every point.
        options: arrivals, SLO and so on, the same at every point.
        cost: how long a pass takes, as `--cost` has it; else what `options.deployment` says.
        out: folder to keep the runs in; they are not kept if left out.
        workers: processes; as many as there are cores if left out. More than one need a script
            that may be imported (`if __name__ == "__main__":`), as ever with `multiprocessing`.
    """
    trace = Trace.of(trace)
    options = options or ReplayOptions()
    if cost is not None:
        options = replace(options, deployment=replace(options.deployment, cost=cost))
    plan = Plan(axes, flags or {}, options)
    return sorted(run_sweep(trace, plan, out=out, workers=workers), key=lambda each: each.index)


def run_sweep(
    trace: Trace,
    plan: Plan,
    *,
    out: Path | None = None,
    workers: int | None = None,
    make_pool: Callable[[Trace, int], Pool] = Workers,
) -> Generator[Outcome]:
    """Outcomes as they come. Closing the iterator stops the workers; what is stored stays.

    A point whose run lies complete in `out` is not run again; why a point has none is noted there.
    `make_pool` gets the trace and how many are to work at a time.
    """
    log = None if out is None else PointLog(out)
    with closing(_outcomes(trace, plan, out, workers, make_pool, log)) as coming:
        for outcome in coming:
            if log is not None and outcome.summary is None:
                log.note(outcome.point, status=outcome.status, reason=outcome.reason)
            yield outcome


def _outcomes(
    trace: Trace,
    plan: Plan,
    out: Path | None,
    workers: int | None,
    make_pool: Callable[[Trace, int], Pool],
    log: PointLog | None,
) -> Generator[Outcome]:
    jobs: list[Job] = []
    for index, point in enumerate(plan.points()):
        job = make_job(index, point, plan, trace, out)
        if log is not None and isinstance(job, Job) and job.folder is not None:
            log.note(point, folder=job.folder.name)
        if isinstance(job, Outcome):
            yield job
        elif (reused := reuse(job)) is not None:
            yield reused
        else:
            jobs.append(job)
    if jobs:
        with make_pool(trace, min(workers or cores(), len(jobs))) as pool:
            for job, result in pool.each(replay_job, jobs):
                yield outcome_of(job, result)


def make_job(
    index: int, point: Mapping[str, Any], plan: Plan, trace: Trace, out: Path | None
) -> Job | Outcome:
    """A point made ready to run, or refused because of its flags."""
    try:
        config, options = settled(point, plan)
        options.deployment.make_runner()  # made again where it runs
    except SchedbenchError as error:
        return Outcome(index, point, "refused", reason=str(error))
    job = Job(index, point, config, options)
    return job if out is None else replace(job, folder=out / "points" / _name(job, trace))


def settled(point: Mapping[str, Any], plan: Plan) -> tuple[SchedulerConfig, ReplayOptions]:
    """The flags and options of a point. Raises what either refuses."""
    varied = {name: point[name] for name in OPTION_AXES if name in point}
    serving = {name: point[name] for name in SERVING_AXES if name in point}
    flags = {name: point[name] for name in point if name not in varied | serving}
    if "speedup" in varied:
        varied["speedup"] = str(varied["speedup"])
    deployment = replace(plan.options.deployment, **serving)
    options = replace(plan.options, deployment=deployment, **varied)
    return deployment.config({**plan.flags, **flags}), options


def fixed_of(plan: Plan) -> dict[str, Any]:
    """What is the same at every point, and decides: flags, options, and the version of this."""
    options = {k: v for k, v in _deciding(plan.options).items() if k not in plan.axes}
    serving = {k: v for k, v in options.pop("deployment").items() if k not in plan.axes}
    own = {"schedbench": version("schedbench"), "axes": sorted(plan.axes)}
    return {**own, **plan.flags, **options, **serving}


def _deciding(options: ReplayOptions) -> dict[str, Any]:
    found = {name: value for name, value in vars(options).items() if name not in _UNTOLD}
    found["events"] = [vars_of(event) for event in options.events]
    found["deployment"] = options.deployment.as_dict()
    return found


def _name(job: Job, trace: Trace) -> str:
    """What varies, and a digest of everything that decides the run."""
    options = _deciding(job.options)
    code = [source_digest(spec) for spec in (job.options.scheduler, job.options.policy_class)]
    decided = [trace.digest, job.config.as_dict(), options, code, version("schedbench")]
    digest = hashlib.sha256(orjson.dumps(decided, option=orjson.OPT_SORT_KEYS)).hexdigest()
    told = ",".join(f"{name}={value}" for name, value in job.point.items())
    return f"{re.sub(r'[^A-Za-z0-9=.,_+-]+', '_', told)[:_NAME_LENGTH]}-{digest[:8]}"


def reuse(job: Job) -> Outcome | None:
    """The outcome of an earlier sweep; what that one left unfinished is cleared away."""
    if job.folder is None or not job.folder.exists():
        return None
    try:
        run = StoredRun.open(job.folder, allow_incomplete=True)
    except SchedbenchError:
        shutil.rmtree(job.folder)
        return None
    if reason := run.manifest.get("stalled"):
        return Outcome(job.index, job.point, "stalled", None, reason, job.folder, is_reused=True)
    if not run.is_complete:
        shutil.rmtree(job.folder)
        return None
    return Outcome(job.index, job.point, "complete", run.summary, path=job.folder, is_reused=True)


def outcome_of(job: Job, result: dict[str, Any] | None) -> Outcome:
    """What became of a job that was run; without a result its process was killed."""
    is_kept = job.folder is not None and job.folder.exists()
    found = _KILLED if result is None else result
    outcome = Outcome(job.index, job.point, path=job.folder if is_kept else None, **found)
    if outcome.status == "stalled" and outcome.path is not None:
        stored = StoredRun.open(outcome.path, allow_incomplete=True)
        return replace(outcome, reason=stored.manifest["stalled"])
    return outcome
