"""The jobs of a trace, and when each is due: as recorded, all at once, or after one another."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbench.runner.arrivals import ClosedLoop, OpenLoop, think_time
from schedbench.sched.express import Job

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator

    import pyarrow as pa

    from schedbench.runner.arrivals import ArrivalMode, Arrivals
    from schedbench.runner.requests import RequestSource
    from schedbench.sched.express import JobHeap
    from schedbench.workloads.trace import Trace

CHUNK_ROWS = 8192


class Coming:
    """A trace's requests as jobs, in file order, and when each is due: as recorded, or at once."""

    def __init__(
        self, trace: Trace, max_model_len: int, source: RequestSource, *, at_once: bool = False
    ) -> None:
        self._trace = trace
        self._source = source
        self._most = max_model_len
        self._at_once = at_once
        self._chunks = self._read()
        self._due: list[int] = []
        self._jobs: list[Job] = []
        self._first = self._next = 0  # of the chunk; among its rows
        self.next_ns: int | None = None
        self._read_on()

    def take(self, now_ns: int, step: int, queue: deque[Job] | JobHeap) -> None:
        """Put those that are due by now into the queue; `step` is the one that sees them first."""
        while self.next_ns is not None and self.next_ns <= now_ns:
            due, place = self._due, self._next
            last = len(due)
            while place < last and due[place] <= now_ns:
                job = self._jobs[place]
                job.entered_ns, job.entered_step = now_ns, step
                queue.append(job)
                place += 1
            self._next = place
            if place < last:
                self.next_ns = due[place]
            else:
                self._read_on()

    def _read_on(self) -> None:
        self._first += len(self._due)
        self._due, self._jobs = next(self._chunks, ([], []))
        self._next = 0
        self.next_ns = self._due[0] if self._due else None

    def finished(self, job: Job, now_ns: int) -> None:
        """No request waits for another."""

    def rest(self) -> Arrivals:
        """What is still to come, as the reference path takes it."""
        return OpenLoop(self._source.starting_at(self._first + self._next))

    def _read(self) -> Iterator[tuple[list[int], list[Job]]]:
        """When each is added, and the job that it is. A chunk of rows at a time."""
        names = ("arrival_ns", "added_ns", "prompt_tokens", "output_tokens", "max_tokens")
        for first in range(0, self._trace.num_requests, CHUNK_ROWS):
            table = self._trace.table.slice(first, CHUNK_ROWS)
            of = {name: _integers(table, name) for name in names}
            arrival, added, prompt, output, cap = (of[name] for name in names)
            assert arrival is not None and prompt is not None and output is not None  # noqa: PT018
            added = arrival if added is None else np.where(added < 0, arrival, added)
            cap = output if cap is None else np.where(cap <= 0, output, cap)
            emit = np.maximum(np.minimum(np.minimum(output, cap), self._most - prompt), 1)
            by_itself = (output < cap) & (emit == output) & (prompt + emit < self._most)
            if self._at_once:
                arrival = added = np.zeros(len(prompt), np.int64)
            rows = range(first, first + len(prompt))
            jobs = list(map(Job, rows, prompt.tolist(), emit.tolist(), arrival.tolist()))
            for place in np.flatnonzero(by_itself).tolist():
                jobs[place].ends_by_itself = True
            if "priority" in table.column_names:
                priorities = table["priority"].fill_null(0).to_pylist()
                for job, priority in zip(jobs, priorities, strict=True):
                    job.priority = priority
            if self._source.shares:
                for job, identity in zip(jobs, self._source.identities(table), strict=True):
                    job.identity = identity
            yield added.tolist(), jobs


class ComingInTurn(Coming):
    """A job whose row has `after` is due a think time after that row has finished."""

    def __init__(
        self, trace: Trace, max_model_len: int, source: RequestSource, think_ns: int | None
    ) -> None:
        super().__init__(trace, max_model_len, source)
        self._think_ns = think_ns
        self._due_jobs: list[tuple[int, int, Job]] = []  # a heap
        self._after: dict[int, list[tuple[int, Job]]] = {}  # think times and jobs, by row
        after, think = (_integers(trace.table, name) for name in ("after", "think_ns"))
        while self._jobs:
            for due, job in zip(self._due, self._jobs, strict=True):
                before = -1 if after is None else int(after[job.row])
                if before < 0:
                    self._due_jobs.append((due, job.row, job))
                    continue
                own = -1 if think is None else int(think[job.row])
                wait = think_time(job.row, before, own if own >= 0 else None, think_ns)
                self._after.setdefault(before, []).append((wait, job))
            self._read_on()
        heapq.heapify(self._due_jobs)
        self._see_next()

    def take(self, now_ns: int, step: int, queue: deque[Job] | JobHeap) -> None:
        """Put those that are due by now into the queue; `step` is the one that sees them first."""
        while self._due_jobs and self._due_jobs[0][0] <= now_ns:
            job = heapq.heappop(self._due_jobs)[2]
            job.entered_ns, job.entered_step = now_ns, step
            queue.append(job)
        self._see_next()

    def finished(self, job: Job, now_ns: int) -> None:
        """Let those come that wait for a job."""
        for wait, next_job in self._after.pop(job.row, ()):
            next_job.arrival_ns = now_ns + wait
            heapq.heappush(self._due_jobs, (next_job.arrival_ns, next_job.row, next_job))
        self._see_next()

    def rest(self) -> Arrivals:
        """What is still to come, as the reference path takes it."""
        due = {job.row: at for at, _, job in self._due_jobs}
        waiting = [job.row for jobs in self._after.values() for _, job in jobs]
        left = self._source.of_rows(sorted([*due, *waiting]))
        return ClosedLoop(left, self._think_ns, due)

    def _see_next(self) -> None:
        self.next_ns = self._due_jobs[0][0] if self._due_jobs else None


def coming_by(
    arrivals: ArrivalMode,
    trace: Trace,
    max_model_len: int,
    source: RequestSource,
    think_ns: int | None,
) -> Coming:
    """Jobs in the order and at the times that the arrival mode asks for."""
    if arrivals == "closed":
        return ComingInTurn(trace, max_model_len, source, think_ns)
    return Coming(trace, max_model_len, source, at_once=arrivals == "all-at-once")


def _integers(table: pa.Table, name: str) -> Any:  # noqa: ANN401 - an array, or None
    """A column, nulls as -1; None if the trace has none."""
    if name not in table.column_names:
        return None
    return table[name].fill_null(-1).to_numpy()
