"""What follows from the steps of a batch: digests, gaps between tokens, waits.

Nothing of it decides anything, so that it is worked out for many steps at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from schedbench.runner.waits import WAIT_LABELS, label_of_stop
from schedbench.sched.express import JobHeap
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable, Iterator, Sequence

    from schedbench.results.run_rows import Expansion, Integers
    from schedbench.runner.decision_digest import DecisionDigest
    from schedbench.runner.express_batch import Batch
    from schedbench.runner.waits import WaitClock
    from schedbench.sched.express import Job

Digests = npt.NDArray[np.uint64]
VERDICTS = list(Verdict)  # by number
STOPS = [f"{a.label} {b.label}" for a in VERDICTS for b in VERDICTS]
_LABEL_OF_STOP = np.array([label_of_stop(verdict) for verdict in VERDICTS])


def decisions(digest: DecisionDigest, batch: Batch, of: dict[str, Integers]) -> Digests:
    """Chain the digest through a batch; its value after each step."""
    ends = np.maximum.accumulate(of["grants_end"])
    begins = np.concatenate(([0], ends[:-1]))
    running_stop, admission_stop = of["running_stop"], of["admission_stop"]
    stops = running_stop * len(VERDICTS) + admission_stop
    changes = np.concatenate(([True], stops[1:] != stops[:-1])) | (ends > begins)
    changes[list(batch.victims)] = True
    places = np.flatnonzero(changes)
    stops_of = [STOPS[code] for code in stops[places].tolist()]
    facts = (each[places].tolist() for each in (begins, ends))
    changed = zip(places.tolist(), *facts, stops_of, strict=True)
    values = digest.steps(bytes(batch.grants), batch.victims, changed)
    return np.frombuffer(values, np.dtype("<u8"))[np.cumsum(changes)]


def gaps_of_steps(of: dict[str, Integers], last_end_ns: int) -> tuple[Integers, Integers, Integers]:
    """From the end of a pass to the next one's, where those of a run all take as long.

    Gaps, how many tokens came after each, and the largest gap of each step, which is its first: a
    run starts no earlier than the pass before it ended. `last_end_ns`: the end of the pass before.
    """
    durations, others, in_step = of["duration_ns"], of["passes"] - 1, of["in_step"]
    before = np.concatenate(([last_end_ns], of["end_ns"][:-1]))
    first = of["end_ns"] - others * durations - before
    runs = np.flatnonzero(others)
    gaps = np.concatenate((first, durations[runs]))
    tokens = np.concatenate((in_step, in_step[runs] * others[runs]))
    return gaps, tokens, first


def gaps_of_passes(
    of: dict[str, Integers],
    last_end_ns: int,
    expansion: Expansion,
    durations: Integers,
    warmup_ns: int,
) -> tuple[Integers, Integers, Integers]:
    """As `gaps_of_steps`, for passes of any `durations`.

    No tokens are counted that came before `warmup_ns`; the largest gaps are those of all passes.
    """
    first = expansion.first
    rest = np.add.reduceat(durations, first) - durations[first]
    gaps = durations.copy()
    gaps[first] = of["end_ns"] - rest - np.concatenate(([last_end_ns], of["end_ns"][:-1]))
    ends = last_end_ns + np.cumsum(gaps)
    tokens = np.where(ends >= warmup_ns, of["in_step"][expansion.run], 0)
    return gaps, tokens, np.maximum.reduceat(gaps, first)


class Largest:
    """The largest of any stretch of values, for many stretches at once."""

    def __init__(self, values: Integers) -> None:
        self._of_length = [values]  # the largest of 1, 2, 4, ... values from each place on
        length = 1
        while 2 * length <= len(values):
            last = self._of_length[-1]
            self._of_length.append(np.maximum(last[:-length], last[length:]))
            length *= 2

    def between(self, first: Integers, last: Integers) -> Integers:
        """Of the values from `first` to `last`, both included; -1 of none."""
        answer = np.full(len(first), -1)
        lengths = last - first + 1
        level_of = np.frexp(np.maximum(lengths, 1))[1] - 1
        for level, values in enumerate(self._of_length):
            some = np.flatnonzero((level_of == level) & (lengths > 0))
            if len(some):
                ending = last[some] - (1 << level) + 1
                answer[some] = np.maximum(values[first[some]], values[ending])
        return answer


class QueueWaits:
    """What holds up whoever is in the queue, in sums by label that run on from batch to batch.

    The time from one step's start to the next one's goes to what ended admission in the first.
    """

    def __init__(self) -> None:
        self._sums = np.zeros(len(WAIT_LABELS), np.int64)  # at the start of the step before
        self._before = (0, Verdict.QUEUES_EMPTY.number)  # its start, and what ended admission
        self._latest = self._sums  # at the start of the last step or of the pass in flight
        self._since = self._before

    def settle(
        self,
        batch: Batch,
        of: dict[str, Integers],
        waiting: deque[Job] | JobHeap,
        pending: tuple[int, int] | None,
    ) -> None:
        """Tell those that a batch let in what they waited; whoever still waits keeps a mark.

        `pending`: start, ns, and number of the stop of a pass in flight, which is no step yet.
        """
        ahead = [] if pending is None else [pending]
        start_ns, stop = self._before
        starts = np.concatenate(([start_ns], of["start_ns"], [each[0] for each in ahead]))
        stops = np.concatenate(([stop], of["admission_stop"], [each[1] for each in ahead]))
        starts, stops = starts.astype(np.int64), stops.astype(np.int64)
        sums = RunningSums(self._sums, np.diff(starts), _LABEL_OF_STOP[stops[:-1]])
        zero, last, num_steps = batch.first - 1, len(starts) - 1, batch.num_steps
        self._let_in(batch.waits, sums, zero)
        came = [(job, job.entered_step - zero) for job in unmarked(waiting)]
        places = sorted({place for _, place in came if place <= last})
        marks = dict(zip(places, sums.at(np.array(places, np.int64)), strict=True))
        for job, place in came:
            job.mark = marks.get(place)
        self._sums, self._latest = sums.at(np.array([num_steps, last]))
        self._before = int(starts[num_steps]), int(stops[num_steps])
        self._since = int(starts[last]), int(stops[last])

    def hand_over(self, waiting: Iterable[Job], clock: WaitClock) -> None:
        """Let a clock go on for whoever waits; those that came since the last step are its own."""
        for job in waiting:
            if job.mark is not None:
                _add_wait(job, (self._latest - job.mark).tobytes())
                job.mark = None
        since_ns, stop = self._since
        clock.goes_on(since_ns, VERDICTS[stop])

    def _let_in(
        self, waits: Sequence[tuple[Job, Any, int, int]], sums: RunningSums, zero: int
    ) -> None:
        if not waits:
            return
        jobs, marks, came, went = zip(*waits, strict=True)
        since = sums.at(np.maximum(np.array(came) - zero, 0))
        for place, mark in enumerate(marks):
            if mark is not None:
                since[place] = mark
        waited, width = (sums.at(np.array(went) - zero) - since).tobytes(), 8 * len(WAIT_LABELS)
        for job, begin in zip(jobs, range(0, len(waited), width), strict=True):
            _add_wait(job, waited[begin : begin + width])


class RunningSums:
    """Sums by label at the start of every step of a batch, and of the one before at place 0."""

    def __init__(self, before: Integers, elapsed: Integers, labels: Integers) -> None:
        self._before = before
        self._since = {
            int(label): np.concatenate(([0], np.cumsum(np.where(labels == label, elapsed, 0))))
            for label in np.unique(labels)
        }

    def at(self, places: Integers) -> Integers:
        """Rows of ns by `WAIT_LABELS`."""
        sums = np.tile(self._before, (len(places), 1))
        for label, since in self._since.items():
            sums[:, label] += since[places]
        return sums


def unmarked(waiting: deque[Job] | JobHeap) -> Iterator[Job]:
    """Those that came since the last batch: preempted ones at the head, new ones at the tail."""
    if isinstance(waiting, JobHeap):
        yield from [job for job in waiting if job.mark is None]
        return
    for job in waiting:
        if job.mark is not None:
            break
        yield job
    else:
        return
    for job in reversed(waiting):
        if job.mark is not None:
            return
        yield job


def wait_where_it_stood(job: Job, stop: Verdict, waited_ns: int) -> None:
    """Add what a request waited that ended in the queue, for a pass that ended admission so."""
    waited = np.zeros(len(WAIT_LABELS), np.int64)
    waited[label_of_stop(stop)] = waited_ns
    _add_wait(job, waited.tobytes())


def _add_wait(job: Job, waited: bytes) -> None:
    """Add to what a request waited: ns by `WAIT_LABELS`, packed, for most wait once."""
    if job.waited_ns is not None:
        before = np.frombuffer(job.waited_ns, np.int64)
        waited = (before + np.frombuffer(waited, np.int64)).tobytes()
    job.waited_ns = waited
