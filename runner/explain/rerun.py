"""A stored run made ready to be replayed again: its trace, its flags, its times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbench.errors import RunStoreError, SchedbenchError
from schedbench.runner.clock import parse_cost
from schedbench.runner.deployment import Deployment
from schedbench.runner.events import Event
from schedbench.runner.latency.recorded import RecordedRunner
from schedbench.runner.plugins import OWN_SCHEDULER
from schedbench.runner.run import ReplayOptions, prepare
from schedbench.runner.watch import watch
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.recording import is_recording
from schedbench.workloads.importers.registry import IMPORTERS, load_trace
from schedbench.workloads.sniff import OWN_FORMAT, sniff
from schedbench.workloads.too_long import TooLong
from schedbench.workloads.transform import slice_trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from schedbench.results.stored_run import StoredRun
    from schedbench.runner.api import Runner
    from schedbench.runner.replay import Progress
    from schedbench.runner.watch import Watched, Watcher
    from schedbench.workloads.trace import Trace

_SLICED_BY = ("from_ns", "to_ns", "limit")


@dataclass(frozen=True)
class Rerun:
    """What decided a stored run. `trace` is as it was given: not yet cut to fit or sped up."""

    run: StoredRun
    trace: Trace
    config: SchedulerConfig
    options: ReplayOptions

    def prepared(self) -> Trace:
        """The trace as it was replayed."""
        return prepare(self.trace, self.config, self.options)


def rerun_of(run: StoredRun, trace_path: str | None = None) -> Rerun:
    """Take a run up again from its manifest.

    Args:
        run: complete, stalled or cut short.
        trace_path: where the trace lies now, if not where the manifest says.

    Raises:
        RunStoreError: the trace is gone or another one, or the flags are not known here.
    """
    try:
        config = SchedulerConfig(**run.manifest["scheduler"])
        options = _options(run.manifest)
    except (KeyError, TypeError) as error:
        raise RunStoreError(
            f"{run.path}: this schedbench cannot read what the run was made with ({error}); "
            "replay the trace again"
        ) from error
    return Rerun(run, _trace(run, trace_path), config, options)


def look_on(rerun: Rerun, watcher: Watcher, progress: Progress | None = None) -> Watched:
    """Replay a run again with a watcher, and make sure that it is the same run.

    Raises:
        RunStoreError: a pass is decided otherwise than it was when the run was stored.
    """
    log = rerun.run.passes(["decisions", "duration_ns", "start_ns"])
    known = log.column("decisions").to_numpy()
    goes_fast = not watcher.needs_every_pass
    runner = same_times(rerun.run) if goes_fast or not rerun.run.is_complete else None
    watched = watch(
        rerun.prepared(),
        rerun.config,
        rerun.options,
        runner or _own_times(rerun.run, log),
        watcher,
        passes=None if runner else len(known),
        progress=progress,
    )
    again = watched.rows.passes.table().column("decisions").to_numpy()
    both = min(len(known), len(again))
    apart = np.flatnonzero(known[:both] != again[:both])
    if apart.size:
        raise RunStoreError(
            f"{rerun.run.path}: pass {apart[0]} is decided otherwise now than when it was stored "
            f"(by schedbench {rerun.run.manifest['versions']['schedbench']}), so that nothing said "
            "about it would be true. Replay the trace again"
        )
    return watched


def _own_times(run: StoredRun, log: pa.Table) -> RecordedRunner:
    """The run's own times; of one that followed a recorded server, also when its passes began."""
    follows = run.manifest.get("runner_details", {}).get("follows_server")
    starts = log.column("start_ns").to_pylist() if follows else ()
    return RecordedRunner(log.column("duration_ns").to_pylist(), None, run.name, starts)


def same_times(run: StoredRun) -> Runner | None:
    """What gave a run its times, and can give them to passes that it did not make.

    None where they were measured or recorded, or where the model of time is not to be had here.
    """
    time, deployment = run.manifest["time"], run.manifest.get("deployment")
    if deployment is None:
        return parse_cost(time["description"]) if time["source"] == "clock" else None
    made = Deployment(**deployment)
    if made.is_torch or made.recorded is not None:
        return None
    try:
        runner = made.make_runner()
    except SchedbenchError:  # its model or profile is gone
        return None
    return runner if getattr(runner, "description", "") == time["description"] else None


def _options(manifest: Mapping[str, Any]) -> ReplayOptions:
    options = ReplayOptions(
        speedup=manifest["speedup"],
        arrivals=manifest["arrivals"],
        think_ns=manifest["think_ns"],
        too_long=TooLong(manifest["too_long"]),
        warmup_ns=manifest["warmup_ns"],
        slo_ns=manifest["slo_ns"],
        events=[Event(**each) for each in manifest["events"]],
        seed=manifest["seed"],
        deployment=Deployment(**(manifest.get("deployment") or {})),
        scheduler=manifest.get("engine", OWN_SCHEDULER),
        policy_class=manifest.get("policy_class"),
    )
    acceptance = manifest["spec_acceptance"]
    if acceptance is None:
        return options
    return dataclasses.replace(options, spec_acceptance=acceptance)


def _trace(run: StoredRun, trace_path: str | None) -> Trace:
    about = run.manifest["trace"]
    path = trace_path or about["path"]
    if path is None:
        raise RunStoreError(
            f"{run.path} does not say where its trace lies: it was made in memory. Write it to a "
            "file, and name that with --trace PATH"
        )
    if "://" not in path and not Path(path).exists():
        where = "there is no such file" if trace_path else "the trace is not there any more"
        raise RunStoreError(
            f"{path}: {where}, and without the trace of {run.path} nothing can be watched. Point "
            "to it with --trace PATH"
        )
    trace = _read(path, about["provenance"])
    if trace.digest != about["digest"]:
        raise RunStoreError(
            f"{path} is not the trace that {run.path} replayed: its digest is {trace.digest}, and "
            f"that one's {about['digest']}. Point to the right one with --trace PATH"
        )
    return trace


def _read(path: str, provenance: Mapping[str, Any]) -> Trace:
    """Read and cut a trace as it was read and cut for the run."""
    if is_recording(path):
        trace = load_trace(path, options=ImportOptions(**provenance.get("options", {})))
    elif sniff(path) == OWN_FORMAT or provenance.get("format") not in IMPORTERS:
        trace = load_trace(path)
    else:
        options = ImportOptions(**provenance["options"])
        trace = load_trace(path, fmt=provenance["format"], options=options)
    steps = provenance.get("transforms", [])[len(trace.provenance.get("transforms", [])) :]
    for step in steps:
        if step["step"] != "slice":
            break  # the replay itself does the rest
        trace = slice_trace(trace, **{name: step.get(name) for name in _SLICED_BY})
    return trace
