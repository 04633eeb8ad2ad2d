"""A search for the best flags: points in batches, replayed on all cores.

    point -> a short prefix of the trace -> no worse than the median? -> the whole trace

Points come from three places: some all over the space; then, half and half, those that Optuna's
sampler proposes, and those beside the best, which the prefix does not rule out.

A batch has the same size on every machine and is told in order, so that a search is the same on
every machine; and one that was cut short goes on as if it had not been.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from schedbench.runner.sweep import make_job, outcome_of, reuse
from schedbench.runner.sweep_worker import Job, replay_job
from schedbench.runner.tune.space import Point, Space, beside, distance, first_points, spread
from schedbench.runner.tune.study import POINT, PREFIX, STARTUP, Memory
from schedbench.workloads.transform import slice_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from optuna.trial import Trial

    from schedbench.results.goals import Goal
    from schedbench.runner.sweep import Outcome, Plan
    from schedbench.runner.workers import Workers
    from schedbench.workloads.trace import Trace

BATCH: Final = 4
PREFIX_SHARE: Final = 8  # the prefix has an eighth of the requests
SHORTEST_PREFIX: Final = 100  # requests: below, a prefix says too little
SPREAD: Final = 4  # of the replays, the first quarter is spread evenly over the space
REFINED: Final = 2  # of a batch after that, one half lies beside the best
MOVES: Final = 2  # of one flag, after which it is known whether it makes a difference
MOST_IDLE: Final = 8  # batches without a new point, after which there is nothing more to ask


@dataclass(frozen=True)
class Problem:
    """What is searched: flags, for one goal, on one trace, around what the plan has fixed."""

    trace: Trace
    space: Space
    goal: Goal
    plan: Plan
    root: Path | None = None  # where runs are kept

    def start(self) -> dict[str, Any]:
        """The value of each flag that is searched, as it would be without a search."""
        config = self.plan.options.deployment.config(self.plan.flags)
        return {name: getattr(config, name) for name in self.space}

    def job(self, point: Point) -> Job | Outcome:
        """A point made ready to replay, or refused because of its flags."""
        return make_job(0, point, self.plan, self.trace, self.root)

    @property
    def prefix(self) -> int | None:
        """Requests of the prefix; None if the trace is too short for one."""
        requests = self.trace.num_requests // PREFIX_SHARE
        return requests if requests >= SHORTEST_PREFIX else None

    def value_of(self, summary: Mapping[str, Any] | None) -> float | None:
        return None if summary is None else self.goal.value_of(summary)


@dataclass
class Tried:
    """One point and what came of it; `prefix` is its value on the prefix."""

    point: Point
    outcome: Outcome | None = None  # None: given up after the prefix
    prefix: float | None = None

    @property
    def is_pruned(self) -> bool:
        return self.outcome is None

    @property
    def is_refused(self) -> bool:
        """Nothing was replayed."""
        return self.outcome is not None and self.outcome.status == "refused"

    @property
    def summary(self) -> Mapping[str, Any] | None:
        return None if self.outcome is None else self.outcome.summary


@dataclass
class Search:
    """A search under way; `replays` points are replayed, be it the prefix only."""

    problem: Problem
    memory: Memory
    replays: int
    told: Callable[[Search], None] | None = None
    tried: list[Tried] = field(default_factory=list)
    ended: list[Tried] = field(default_factory=list)  # of the batch under way

    def run(self, pool: Workers) -> None:
        """Go on until so many points were replayed, or there is nothing new to ask.

        One that has ended with as many is only taken up: it would ask for other points now.
        """
        self._take_up()
        if self.memory.ended_with >= self.replays:
            return
        idle = 0
        while self.num_replayed < self.replays and idle < MOST_IDLE:
            before = len(self.tried)
            self._batch(pool, min(BATCH, self.replays - self.num_replayed))
            idle = 0 if len(self.tried) > before else idle + 1
        self.memory.ended_with = self.replays

    def take_ended(self) -> None:
        """Count what ended of a batch that is not ended: a search that is interrupted tells it."""
        self.tried += self.ended
        self.ended.clear()

    @property
    def num_replayed(self) -> int:
        return sum(not each.is_refused for each in self.tried)

    @property
    def num_pruned(self) -> int:
        return sum(each.is_pruned for each in self.tried)

    @property
    def whole(self) -> list[Tried]:
        """The points that were replayed whole and came to an end, the best first.

        Of equal ones that comes first which is nearest to what is set without a search.
        """
        goal, space, start = self.problem.goal, self.problem.space, self.problem.start()
        found = [each for each in self.tried if each.summary is not None]
        return sorted(
            found,
            key=lambda each: (goal.rank(each.summary or {}), distance(space, each.point, start)),
        )

    def before(self) -> tuple[Point, Outcome]:
        """What the flags are without a search, and what comes of that on the whole trace.

        It need not be in the space; then it is replayed for this comparison alone.
        """
        start = self.problem.start()
        tried = self.find(start)
        if tried is not None and tried.outcome is not None:
            return start, tried.outcome
        problem = self.problem
        job = make_job(0, start, problem.plan, problem.trace, None)
        if isinstance(job, Job):
            return start, outcome_of(job, replay_job(problem.trace, job))
        return start, job

    def find(self, point: Point) -> Tried | None:
        return next((each for each in self.tried if each.point == point), None)

    def _take_up(self) -> None:
        """Take over what an earlier search told."""
        for trial in self.memory.known():
            point, prefix = trial.user_attrs[POINT], trial.user_attrs[PREFIX]
            if self.find(point) is not None:
                continue
            if trial.value is None and prefix is not None:
                self.tried.append(Tried(point, None, prefix))
                continue
            job = self.problem.job(point)
            if isinstance(job, Job):
                job = reuse(job) or outcome_of(job, replay_job(self.problem.trace, job))
            self.tried.append(Tried(point, job, prefix))

    def _batch(self, pool: Workers, size: int) -> None:
        number = self.memory.next_batch()
        own = self._own(size)
        asked: list[tuple[Trial | None, Point]] = [(None, each) for each in own]
        asked += self.memory.ask(size - len(asked), number)
        new: list[Point] = []
        for _, point in asked:
            if self.find(point) is None and point not in new:
                new.append(point)
        self.tried += self._tried(pool, new, own)
        self.ended.clear()
        for place, (trial, point) in enumerate(asked):
            known = self.find(point)
            assert known is not None
            value = self.problem.value_of(known.summary)
            self.memory.tell(trial, point, (number, place), value, known.prefix)
        if self.told is not None:
            self.told(self)

    def _tried(self, pool: Workers, new: Sequence[Point], own: Sequence[Point]) -> list[Tried]:
        """What comes of new points, in their order; its `own` ones are not given up."""
        jobs = [(point, self.problem.job(point)) for point in new]
        ready = [(point, job) for point, job in jobs if isinstance(job, Job)]
        replayed = iter(self._replayed(pool, ready, own))
        return [
            next(replayed) if isinstance(job, Job) else Tried(point, job) for point, job in jobs
        ]

    def _own(self, size: int) -> list[Point]:
        """Points that the sampler is not asked for: the first ones, and those around the best."""
        if new := [point for point in self._first() if self.find(point) is None]:
            return new[:size]
        return self._beside()[: size // REFINED]

    def _beside(self) -> list[Point]:
        """Points beside the best, along the flags that make a difference there."""
        bests = self._bests()
        if not bests:
            return []
        best = bests[-1]
        space = {k: v for k, v in self.problem.space.items() if not self._is_idle(k, best)}
        return beside(space, best, [each.point for each in self.tried], bests[:-1])

    def _bests(self) -> list[Point]:
        """The points that were the best when they were tried; the last one still is.

        One that is as good as another is none: to move from one to the next wins nothing.
        """
        found: list[Point] = []
        lowest = math.inf
        for each in self.tried:
            rank = math.inf if each.summary is None else self.problem.goal.rank(each.summary)[0]
            if rank < lowest:
                found.append(each.point)
                lowest = rank
        return found

    def _is_idle(self, name: str, best: Point) -> bool:
        """Whether a flag was moved from the best, twice and by itself, and it made no difference.

        It is left where it is then.
        """
        value = self.problem.value_of
        alike = [each for each in self.whole if {**each.point, name: best[name]} == best]
        values = {value(each.summary) for each in alike}
        return len(alike) > MOVES and len(values) == 1

    def _first(self) -> list[Point]:
        """Where a search begins: some points of note, then some all over the space."""
        space = self.problem.space
        count = self.replays // SPREAD
        found = first_points(space, self.problem.start())
        return [*found, *spread(space, max(0, count - len(found)), self.memory.seed)]

    def _replayed(
        self, pool: Workers, jobs: Sequence[tuple[Point, Job]], own: Sequence[Point]
    ) -> list[Tried]:
        """Replay the prefix of each, and of those that it does not rule out the whole trace."""
        prefixes = self._prefixes(pool, [job for _, job in jobs])
        bound = self._bound()
        ahead = [
            point in own or not self._is_worse(prefix, bound)
            for (point, _), prefix in zip(jobs, prefixes, strict=True)
        ]
        left = [job for (_, job), goes_on in zip(jobs, ahead, strict=True) if goes_on]
        outcomes = iter(self._in_order(pool, left))
        return [
            Tried(point, next(outcomes) if goes_on else None, prefix)
            for (point, _), prefix, goes_on in zip(jobs, prefixes, ahead, strict=True)
        ]

    def _in_order(self, pool: Workers, jobs: Sequence[Job]) -> list[Outcome]:
        """The outcomes in the order of the jobs, whatever ended first; kept ones are reused."""
        found = {place: kept for place, job in enumerate(jobs) if (kept := reuse(job)) is not None}
        left = {place: replace(job, index=place) for place, job in enumerate(jobs)}
        for job, result in pool.each(replay_job, [left[p] for p in left if p not in found]):
            found[job.index] = outcome_of(job, result)
            self.ended.append(Tried(dict(job.point), found[job.index]))
        return [found[place] for place in range(len(jobs))]

    def _prefixes(self, pool: Workers, jobs: Sequence[Job]) -> list[float | None]:
        """The goal's value on the prefix; None where the trace is too short for one."""
        limit = self.problem.prefix
        if limit is None:
            return [None] * len(jobs)
        found = {
            place: summary
            for (place, _, _), summary in pool.each(
                replay_prefix, [(place, job, limit) for place, job in enumerate(jobs)]
            )
        }
        return [self.problem.value_of(found[place]) for place in range(len(jobs))]

    def _bound(self) -> float | None:
        """Beyond it a prefix rules its point out, once enough points are known whole.

        The median of their prefixes; or that of the best, where the best has the worse one: then
        a prefix tells little.
        """
        known = [each.prefix for each in self.whole if each.prefix is not None]
        if len(known) < STARTUP:
            return None
        worse = min if self.problem.goal.maximizes else max
        return worse(median(known), known[0])

    def _is_worse(self, prefix: float | None, bound: float | None) -> bool:
        if prefix is None or bound is None:
            return False
        return prefix < bound if self.problem.goal.maximizes else prefix > bound


def replay_prefix(trace: Trace, part: tuple[int, Job, int]) -> dict[str, Any] | None:
    """The summary of a job over the first requests only; None if it does not come to an end."""
    _, job, limit = part
    short = replace(job, folder=None)
    summary: dict[str, Any] | None = replay_job(slice_trace(trace, limit=limit), short).get(
        "summary"
    )
    return summary
