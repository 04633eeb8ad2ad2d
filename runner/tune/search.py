"""A search for the best flags: points in batches, replayed on all cores.

    point -> a short prefix of the trace -> no worse than the median? -> the whole trace

A batch has the same size on every machine and is told in order, so that a search is the same on
every machine; and one that was cut short goes on as if it had not been.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from schedbench.errors import SchedbenchError
from schedbench.runner.tune.jobs import Job, Result, folder_of, kept, run_job
from schedbench.runner.tune.space import Point, Space, first_points, neighbours
from schedbench.runner.tune.study import POINT, PREFIX, STARTUP, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from optuna.trial import Trial

    from schedbench.results.goals import Goal
    from schedbench.runner.api import Runner
    from schedbench.runner.run import ReplayOptions
    from schedbench.runner.workers import Workers
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

BATCH: Final = 4
PREFIX_SHARE: Final = 8  # the prefix has an eighth of the requests
SHORTEST_PREFIX: Final = 100  # requests: below, a prefix says too little
REFINED: Final = 3  # of the replays, the last third goes to the neighbours of the best
REACHES: Final = (0.25, 0.12, 0.06, 0.03, 0.015)  # of a flag's range, one after the other
MOST_IDLE: Final = 8  # batches without a new point, after which there is nothing more to ask


@dataclass(frozen=True)
class Problem:
    """What is searched: flags around a configuration, for one goal, on one trace."""

    trace: Trace
    space: Space
    goal: Goal
    config: SchedulerConfig
    options: ReplayOptions
    runner: Runner
    root: Path | None = None  # where runs are kept

    def job(self, point: Point) -> Job | Result:
        """A point made ready to replay, or refused because vLLM refuses its flags."""
        try:
            config = dataclasses.replace(self.config, **point)
            config.refuse_what_the_engine_refuses()
        except SchedbenchError as error:
            return Result(reason=str(error))
        job = Job(config, self.options, self.runner)
        return dataclasses.replace(job, folder=folder_of(self.root, job, self.trace, point))

    @property
    def prefix(self) -> int | None:
        """Requests of the prefix; None if the trace is too short for one."""
        requests = self.trace.num_requests // PREFIX_SHARE
        return requests if requests >= SHORTEST_PREFIX else None

    def value_of(self, result: Result) -> float | None:
        return None if result.summary is None else self.goal.value_of(result.summary)


@dataclass
class Tried:
    """One point and what came of it; `prefix` is its value on the prefix."""

    point: Point
    result: Result
    prefix: float | None = None
    is_pruned: bool = False  # given up after the prefix
    is_refused: bool = False  # nothing was replayed


@dataclass
class Search:
    """A search under way; `replays` points are replayed, be it the prefix only."""

    problem: Problem
    memory: Memory
    replays: int
    told: Callable[[Search], None] | None = None
    tried: list[Tried] = field(default_factory=list)

    def run(self, pool: Workers) -> None:
        """Go on until so many points were replayed, or there is nothing new to ask."""
        self._take_up()
        idle = 0
        while self.num_replayed < self.replays and idle < MOST_IDLE:
            before = len(self.tried)
            self._batch(pool, min(BATCH, self.replays - self.num_replayed))
            idle = 0 if len(self.tried) > before else idle + 1

    @property
    def num_replayed(self) -> int:
        return sum(not each.is_refused for each in self.tried)

    @property
    def num_pruned(self) -> int:
        return sum(each.is_pruned for each in self.tried)

    @property
    def whole(self) -> list[Tried]:
        """The points that were replayed whole and came to an end, the best first."""
        goal = self.problem.goal
        found = [each for each in self.tried if each.result.summary and not each.is_pruned]
        return sorted(found, key=lambda each: goal.rank(each.result.summary or {}))

    def find(self, point: Point) -> Tried | None:
        return next((each for each in self.tried if each.point == point), None)

    def _take_up(self) -> None:
        """Take over what an earlier search told."""
        for trial in self.memory.known():
            point, prefix = trial.user_attrs[POINT], trial.user_attrs[PREFIX]
            if self.find(point) is not None:
                continue
            job = self.problem.job(point)
            if isinstance(job, Result):
                self.tried.append(Tried(point, job, is_refused=True))
            elif trial.value is None and prefix is not None:
                self.tried.append(Tried(point, Result(), prefix, is_pruned=True))
            else:
                found = kept(job.folder) or run_job(self.problem.trace, job)
                self.tried.append(Tried(point, found, prefix))

    def _batch(self, pool: Workers, size: int) -> None:
        number = self.memory.next_batch()
        asked: list[tuple[Trial | None, Point]] = [(None, each) for each in self._own(size)]
        asked += self.memory.ask(size - len(asked), number)
        new: list[Point] = []
        for _, point in asked:
            if self.find(point) is None and point not in new:
                new.append(point)
        self.tried += self._tried(pool, new)
        for place, (trial, point) in enumerate(asked):
            known = self.find(point)
            assert known is not None
            value = None if known.is_pruned else self.problem.value_of(known.result)
            self.memory.tell(trial, point, (number, place), value, known.prefix)
        if self.told is not None:
            self.told(self)

    def _tried(self, pool: Workers, new: Sequence[Point]) -> list[Tried]:
        """What comes of new points, in their order."""
        jobs = [(point, self.problem.job(point)) for point in new]
        ready = [(point, job) for point, job in jobs if isinstance(job, Job)]
        replayed = iter(self._replayed(pool, ready))
        return [
            next(replayed) if isinstance(job, Job) else Tried(point, job, is_refused=True)
            for point, job in jobs
        ]

    def _own(self, size: int) -> list[Point]:
        """Points that the sampler is not asked for: the first ones, and those around the best."""
        space, config = self.problem.space, self.problem.config
        if not self.tried:
            return first_points(space, {name: getattr(config, name) for name in space})[:size]
        whole = self.whole
        if not whole or self.num_replayed < self.replays - self.replays // REFINED:
            return []
        for reach in REACHES:
            beside = neighbours(space, whole[0].point, reach)
            if new := [point for point in beside if self.find(point) is None]:
                return new[:size]
        return []

    def _replayed(self, pool: Workers, jobs: Sequence[tuple[Point, Job]]) -> list[Tried]:
        """Replay the prefix of each, and of those that it does not rule out the whole trace."""
        prefixes = self._prefixes(pool, [job for _, job in jobs])
        bound = self._median()
        found = [
            Tried(point, Result(), prefix)
            for (point, _), prefix in zip(jobs, prefixes, strict=True)
        ]
        for each in found:
            each.is_pruned = self._is_worse(each.prefix, bound)
        left = [job for (_, job), each in zip(jobs, found, strict=True) if not each.is_pruned]
        results = iter(_in_order(pool, left))
        for each in found:
            if not each.is_pruned:
                each.result = next(results)
        return found

    def _prefixes(self, pool: Workers, jobs: Sequence[Job]) -> list[float | None]:
        """The goal's value on the prefix; None for a point whose whole run is kept."""
        limit = self.problem.prefix
        if limit is None:
            return [None] * len(jobs)
        short = [dataclasses.replace(job, folder=None, limit=limit) for job in jobs]
        return [self.problem.value_of(result) for result in _in_order(pool, short)]

    def _median(self) -> float | None:
        """Of the prefixes of the points replayed whole, once there are enough of them."""
        known = [each.prefix for each in self.whole if each.prefix is not None]
        return median(known) if len(known) >= STARTUP else None

    def _is_worse(self, prefix: float | None, bound: float | None) -> bool:
        if prefix is None or bound is None:
            return False
        return prefix < bound if self.problem.goal.maximizes else prefix > bound


def _in_order(pool: Workers, jobs: Sequence[Job]) -> list[Result]:
    """The results in the order of the jobs, whatever ended first; kept ones are not made again."""
    known: Mapping[int, Result | None] = {id(job): kept(job.folder) for job in jobs}
    found = {place: result for place, result in known.items() if result is not None}
    for job, result in pool.each(run_job, [job for job in jobs if id(job) not in found]):
        found[id(job)] = result or Result(reason="the worker process was killed")
    return [found[id(job)] for job in jobs]
