"""Real replays of a run with other flags, on all cores."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedbench.errors import SchedbenchError
from schedbench.results.explain.waiting import WAIT
from schedbench.results.explain.what_if import Tried, WhatIfs
from schedbench.runner.explain.room import what_it_takes
from schedbench.runner.explain.times import modelled
from schedbench.runner.run import ReplayOptions, replay
from schedbench.runner.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from schedbench.runner.api import Runner
    from schedbench.runner.explain.rerun import Rerun
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

REQUEST_COLUMNS = ("row", "request_id", "arrival_ns", "first_scheduled_ns", "ttft_ns", "e2e_ns")
"""Of each request, beside its waits."""


@dataclass(frozen=True)
class Trial:
    """One replay to be made; `changes` by flag."""

    changes: Mapping[str, Any]
    config: SchedulerConfig
    options: ReplayOptions
    runner: Runner


def changed(config: SchedulerConfig, changes: Mapping[str, Any]) -> SchedulerConfig | None:
    """The configuration with some flags changed; None if vLLM refuses it."""
    try:
        other = dataclasses.replace(config, **changes)
        other.refuse_what_the_engine_refuses()
    except SchedbenchError:
        return None
    return other


def try_changes(
    rerun: Rerun,
    changes: Sequence[Mapping[str, Any]],
    *,
    workers: int | None = None,
    told: Callable[[int, int], None] | None = None,
) -> WhatIfs:
    """Replay the run as it is and with each of the changes. `told`: how many of how many are done.

    Changes that vLLM refuses, or that change nothing, are left out.
    """
    runner, about = modelled(rerun.run)
    trials = [Trial({}, rerun.config, rerun.options, runner)]
    for each in changes:
        config = changed(rerun.config, each)
        if config is not None and all(config != trial.config for trial in trials):
            trials.append(Trial(each, config, rerun.options, runner))
    found: dict[int, Tried] = {}
    numbered = list(enumerate(trials))
    with Workers(rerun.trace, workers) as pool:
        for (place, trial), tried in pool.each(replay_trial, numbered):
            killed = Tried(trial.changes, failure="the process was killed")
            takes = what_it_takes(rerun.options.deployment, rerun.config, trial.changes)
            found[place] = dataclasses.replace(tried or killed, takes=takes)
            if told is not None:
                told(len(found), len(trials))
    base, *others = (found[place] for place, _ in numbered)
    if base.failure and not about:
        base = dataclasses.replace(base, requests=_of_stalled(rerun))
    return WhatIfs(base, tuple(others), about)


def _of_stalled(rerun: Rerun) -> pa.Table | None:
    """What became of each request up to the stall, which a replay with the same times repeats."""
    if not rerun.run.manifest.get("stalled"):
        return None
    return _kept(rerun.run.requests())


def replay_trial(trace: Trace, numbered: tuple[int, Trial]) -> Tried:
    """Make one replay; that it stalls or cannot be is a result as well."""
    trial = numbered[1]
    try:
        run = replay(trace, trial.config, trial.runner, options=trial.options)
    except SchedbenchError as error:
        return Tried(trial.changes, failure=str(error))
    return Tried(trial.changes, run.summary, _kept(run.requests))


def _kept(requests: pa.Table) -> pa.Table:
    waits = [name for name in requests.column_names if name.startswith(WAIT)]
    return requests.select([*REQUEST_COLUMNS, *waits])
