"""From one release to another, step by step: what each decides otherwise than the one before.

    0.29.0  ==  0.30.0  /=  0.31.0  ==  0.32.0        /= a step whose two sides part, with its cause

Releases with the same behaviours and flags are replayed once. A release that refuses the flags or
stalls is stepped over, with its reason.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedbench.errors import SchedbenchError
from schedbench.results.compare import first_by_decisions
from schedbench.results.upgrade_sheet import ReleaseRow
from schedbench.runner.run import replay
from schedbench.runner.upgrade import (
    RELEASE_FIELDS,
    Side,
    Trials,
    cause_between,
    differences,
)
from schedbench.runner.workers import Workers
from schedbench.sched.behaviours import all_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from schedbench.results.cause import Cause
    from schedbench.runner.run import ReplayOptions
    from schedbench.runner.workers import Pool
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

_KILLED = "its process was killed; is there memory for so many? Give --jobs 1"


@dataclass(frozen=True)
class Job:
    """A release to be replayed, and those that share its behaviours and flags."""

    release: str
    config: SchedulerConfig
    options: ReplayOptions


@dataclass(frozen=True)
class Replayed:
    """What came of it: the numbers and the pass log, or why there are none."""

    summary: dict[str, Any] | None = None
    passes: pa.Table | None = None
    reason: str = ""


def upgrade_steps(
    trace: Trace,
    configs: Mapping[str, SchedulerConfig | str],
    options: ReplayOptions,
    *,
    workers: int | None = None,
    told: Callable[[str], None] = lambda _text: None,
    looks: bool = True,
) -> list[ReleaseRow]:
    """A row for each release, in the order given.

    Args:
        trace: the requests.
        configs: by release the flags as it takes them, or why it refuses them.
        options: how each is replayed.
        workers: processes; as many as there are cores if left out.
        told: hears in words how far it is.
        looks: whether causes are looked for.
    """
    twins = _twins(configs)
    jobs = [
        Job(release, config, options)
        for release, config in configs.items()
        if not isinstance(config, str) and release not in twins
    ]
    with Workers(trace, workers) as pool:
        found = _replayed(pool, jobs, told)
        rows: list[ReleaseRow] = []
        before: tuple[str, Side] | None = None
        for release, config in configs.items():
            if isinstance(config, str):
                rows.append(ReleaseRow(release, reason=config))
                continue
            name = twins.get(release, release)
            row = ReleaseRow(release, found[name].summary, found[name].reason)
            if name != release:
                rows.append(replace(row, same_as=name))
                continue
            passes = found[name].passes
            if passes is None:
                rows.append(row)
                continue
            side = Side(config, passes)
            if before is not None:
                trials = Trials(trace, pool, options, None, _about(release, told))
                row = _stepped(row, trials if looks else None, before, side)
            rows.append(row)
            before = release, side
    return rows


def _twins(configs: Mapping[str, SchedulerConfig | str]) -> dict[str, str]:
    """Releases that decide as an earlier one does by construction, with that one."""
    first: dict[Any, str] = {}
    found = {}
    for release, config in configs.items():
        if isinstance(config, str):
            continue
        names = [each.name for each in dataclasses.fields(config)]
        flags = [getattr(config, name) for name in names if name not in RELEASE_FIELDS]
        key = (config.behaviour, *flags)
        if first.setdefault(key, release) != release:
            found[release] = first[key]
    return found


def _replayed(pool: Pool, jobs: list[Job], told: Callable[[str], None]) -> dict[str, Replayed]:
    found: dict[str, Replayed] = {}
    for job, result in pool.each(replay_release, jobs):
        found[job.release] = result or Replayed(reason=_KILLED)
        told(f"{len(found)} of {len(jobs)} releases replayed")
    return found


def replay_release(trace: Trace, job: Job) -> Replayed:
    """Replay one release; that it stalls or is refused is a result as well."""
    try:
        run = replay(trace, job.config, options=job.options)
    except SchedbenchError as error:
        return Replayed(reason=str(error))
    return Replayed(run.summary, run.passes)


def _about(release: str, told: Callable[[str], None]) -> Callable[[int, int], None]:
    return lambda done, of: told(f"cause in {release}: {done} of {of} replays")


def _stepped(
    row: ReleaseRow, trials: Trials | None, before: tuple[str, Side], side: Side
) -> ReleaseRow:
    """The row with where it parts from the release before, because of what, and the way back."""
    name, first = before
    parting = first_by_decisions(first.passes, side.passes)
    row = replace(row, before=name, parting=parting)
    if parting is None or trials is None:
        return row
    cause = cause_between(trials, first, side)
    if cause is None:
        return row
    ways = dict(_ways_back(first.config, side.config, cause))
    return replace(row, cause=cause, ways_back=ways)


def _ways_back(
    first: SchedulerConfig, other: SchedulerConfig, cause: Cause
) -> Iterator[tuple[str, str]]:
    """By name of what made them part: the flags with which the later release decides as before."""
    flags_of = {facts.name: facts.undone_by for facts in all_facts()}
    there, back = differences(first, other), differences(other, first)
    for switch, undoing in zip(there, back, strict=True):
        if switch.name not in (*cause.alone[:1], *cause.together):
            continue
        way = flags_of[switch.behaviour] if switch.behaviour else undoing.name
        if way:
            yield switch.name, way
