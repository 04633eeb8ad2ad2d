"""The replay's express way: arrivals, passes and rows of a trace of plain text.

It begins with the replay and ends with the trace; or before, at the first event or at a pass that
the plain loops have to see, with everything put where those find it (`express_exit.py`).
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedbench.runner.cut import LONGEST_RUN, cut_run
from schedbench.runner.express_rows import RequestRows, StepRows
from schedbench.runner.record import ADMITTED, CHUNK, RESUMED, VICTIM
from schedbench.runner.so_far import SoFar
from schedbench.sched.express import Express, Job
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from schedbench.results.row_buffer import Log
    from schedbench.results.run_rows import Integers
    from schedbench.runner.record import Recorder
    from schedbench.runner.requests import RequestSource
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

CHUNK_ROWS = 8192
TELL_EVERY = 512  # passes
COVERED = {
    "arrival_ns",
    "added_ns",
    "prompt_tokens",
    "output_tokens",
    "max_tokens",
    "request_id",
    "client",
    "priority",
    "lora",
    "group",
    "session",
    "turn",
    "source_row",
    "after",
    "think_ns",
}
"""Trace columns that make no difference beyond what is done here."""

LIST_DONE = Verdict.LIST_DONE.number
NO_EVICTIONS: tuple[int, ...] = (0, 0, 0, 0, 0)
STOPS = [[f"{a.label} {b.label}" for b in Verdict] for a in Verdict]  # by number
Facts = tuple[int, int, int, int, bool]


class PassAsRun:
    """What a runner has to know of a pass: what such a trace fills of a `SchedulerOutput`."""

    def __init__(self) -> None:
        self.prefills: list[tuple[Job, int, int]] = []
        self.decode_tokens = 0
        self.context_tokens = 0
        self.total_num_scheduled_tokens = 0
        self.num_seqs = 0
        self.scheduled_spec_decode_tokens: dict[str, int] = {}


class Granted(NamedTuple):
    """Prompt tokens granted in a pass; counts of tokens and requests, and the digest's changes."""

    context_tokens: int
    prefill_tokens: int
    query_tokens: int
    admitted: int
    changes: array[int]


class Coming:
    """A trace's requests as jobs, in file order, and when each is due."""

    def __init__(self, trace: Trace, max_model_len: int) -> None:
        self._trace = trace
        self._most = max_model_len
        self._facts = chain.from_iterable(self._chunks())
        self._head: Facts | None = None
        self._advance()

    def take(self, now_ns: int) -> Iterator[Job]:
        """Those that are due by now."""
        while self._head is not None and self._head[1] <= now_ns:
            row, _, prompt_tokens, will_emit, by_itself = self._head
            yield Job(row, prompt_tokens, will_emit, ends_by_itself=by_itself)
            self._advance()

    def _advance(self) -> None:
        head = self._head = next(self._facts, None)
        self.next_ns = None if head is None else head[1]

    @property
    def row(self) -> int:
        """Of the next one."""
        return self._trace.num_requests if self._head is None else self._head[0]

    def _chunks(self) -> Iterator[Iterator[Facts]]:
        """Row, when it is added, prompt, tokens to come, whose end; a chunk of rows at a time."""
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
            rows = range(first, first + len(prompt))
            columns = (added, prompt, emit, by_itself)
            yield zip(rows, *(column.tolist() for column in columns), strict=True)


def _integers(table: pa.Table, name: str) -> Any:  # noqa: ANN401 - an array, or None
    """A column, nulls as -1; None if the trace has none."""
    if name not in table.column_names:
        return None
    return table[name].fill_null(-1).to_numpy()


class ExpressReplay:
    """Drives an `Express`. `run` may be called once; `left` says whether something is left."""

    def __init__(
        self,
        trace: Trace,
        config: SchedulerConfig,
        runner: Any,  # noqa: ANN401 - one that can tell the durations of a run
        recorder: Recorder,
        logs: tuple[Log, Log, Log],
        source: RequestSource,
    ) -> None:
        passes, timings, requests = logs
        self.source = source
        self.express = self.make(config)
        self.coming = Coming(trace, config.max_model_len)
        self.now_ns = 0
        self.num_finished = 0
        self._runner = runner
        self._recorder = recorder
        self._config = config
        self._steps = StepRows(passes, timings, config)
        self._requests = RequestRows(requests, trace)
        self._pass = PassAsRun()

    @staticmethod
    def make(config: SchedulerConfig) -> Express:
        """Make the scheduler of this way."""
        return Express(config)

    def run(self, until_ns: int | None, tell: Callable[[int], None]) -> bool:
        """Replay until nothing is left to come, or `until_ns`; False if something is left."""
        express, coming, recorder = self.express, self.coming, self._recorder
        told = 0
        while True:
            if until_ns is not None and self.now_ns >= until_ns:
                return False
            if coming.next_ns is not None and coming.next_ns <= self.now_ns:
                self._take_arrivals()
            if not express.running and not express.waiting:
                if self._idle():
                    continue
                if coming.next_ns is None:
                    return True
                self.now_ns = coming.next_ns
                if until_ns is not None and until_ns < self.now_ns:
                    self.now_ns = until_ns
                continue
            if not self._step(until_ns):
                return False
            if recorder.num_passes - told >= TELL_EVERY:
                tell(recorder.num_passes - told)
                told = recorder.num_passes

    def so_far(self) -> SoFar:
        """How far this way has led."""
        express = self.express
        num_running, num_waiting = len(express.running), len(express.waiting)
        return SoFar(
            self.now_ns,
            self._recorder.num_passes,
            self.num_finished,
            num_running + num_waiting,
            num_running,
            num_waiting,
            express.pool.num_free,
        )

    def _idle(self) -> bool:
        """Whether there is something to do while nobody is there."""
        return False

    def _step(self, until_ns: int | None) -> bool:
        """Go on by a run or a pass; False if the next pass is one for the plain loops."""
        num_passes = self.express.longest_run()
        if not num_passes:
            return self._one_pass()
        self._run(min(num_passes, LONGEST_RUN), until_ns)
        return True

    def _due_ns(self, until_ns: int | None) -> int | None:
        """When a run has to end: something happens that the next pass sees."""
        due = self.coming.next_ns
        return until_ns if due is None or (until_ns is not None and until_ns < due) else due

    def close(self) -> None:
        """Write what is pending."""
        self._steps.flush()
        self._requests.flush()

    def _take_arrivals(self) -> None:
        now, waits = self.now_ns, self._recorder.waits
        waits.advance(now)
        marks = waits.mark()
        for job in self.coming.take(now):
            job.entered_ns = now
            job.marks = marks
            self.express.waiting.append(job)

    def _run(self, num_passes: int, until_ns: int | None) -> None:
        """A run of decodes, ended before the first pass that starts when something happens."""
        express, recorder, now = self.express, self._recorder, self.now_ns
        began = time.perf_counter_ns()
        decodes, context = express.num_decodes, express.context_tokens
        due = self._due_ns(until_ns)
        durations: int | Integers = self._runner.decode_durations(decodes, context, num_passes)
        num_passes, durations = cut_run(durations, num_passes, now, due)
        first_ns = durations if isinstance(durations, int) else int(durations[0])
        pool, phase = express.pool, express.index % self._config.block_size
        free, bare, cached = pool.num_free, pool.num_bare, pool.num_cached
        num_running, num_waiting = len(express.running), len(express.waiting)
        opens = express.opens()
        stop = express.blocked or Verdict.QUEUES_EMPTY
        ended = express.run(num_passes)
        spent = (time.perf_counter_ns() - began) // num_passes
        recorder.waits.advance(now)
        recorder.waits.schedule_ended(stop, [])
        self.now_ns = recorder.intervals(num_passes, decodes, now, durations)
        recorder.last_end_ns = self.now_ns
        recorder.num_passes += num_passes
        freed = 0
        for job in ended:
            freed += job.num_blocks
            self._ended(job)
        self._steps.add(
            (
                *(num_passes, now, first_ns, decodes, context, 0, 0, decodes),
                *(num_running, num_waiting, 0, 0, len(ended), 0, *NO_EVICTIONS),
                *(LIST_DONE, stop.number, 0, free, bare, cached, 0, freed, 0, spent, phase, 0),
            ),
            recorder.digest.stops_are(STOPS[LIST_DONE][stop.number]),
            opens=opens,
            durations_ns=durations,
        )

    def _one_pass(self) -> bool:
        """A pass with prompts or evictions; False if it is one for the plain loops."""
        express, recorder, now = self.express, self._recorder, self.now_ns
        began = time.perf_counter_ns()
        if not express.schedule_pass():
            return False
        spent = time.perf_counter_ns() - began
        recorder.waits.advance(now)
        prefills, victims, decodes = express.prefills, express.victims, express.num_decodes
        evictions = NO_EVICTIONS
        if victims:
            self._note_places(recorder.last_end_ns)
            evictions = self._evicted()
        granted = self._grants(now)
        context = express.context_tokens + granted.context_tokens
        for job, _ in victims:
            granted.changes.extend((VICTIM, job.row))
        running_stop, admission_stop = express.running_stop, express.admission_stop
        recorder.waits.schedule_ended(admission_stop, [])
        stops = STOPS[running_stop.number][admission_stop.number]
        decisions = recorder.digest.changed(granted.changes, stops)
        was_cut = self._was_cut()
        duration = self._execute(decodes, context, granted.prefill_tokens)
        num_running, num_waiting = len(express.running), len(express.waiting)
        began = time.perf_counter_ns()
        ended, done = express.fold_pass()
        spent += time.perf_counter_ns() - began
        end = self.now_ns = now + duration
        freed = self._emitted(end, decodes, done, ended)
        pool = express.pool
        self._steps.add(
            (
                *(1, now, duration, decodes, context, granted.prefill_tokens, len(prefills)),
                *(decodes + len(done), num_running, num_waiting, granted.admitted),
                *(express.num_resumed, len(ended), 0, *evictions),
                *(running_stop.number, admission_stop.number, was_cut),
                *(pool.num_free, 0, pool.num_cached, express.blocks_freed, freed),
                *(granted.query_tokens, spent, -1, 0),
            ),
            decisions,
            victims=[job.row for job, _ in victims],
        )
        return True

    def _grants(self, now_ns: int) -> Granted:
        """Note who is granted prompt tokens in the pass just scheduled, and what that adds to."""
        express, recorder = self.express, self._recorder
        context = prefill_tokens = query_tokens = admitted = 0
        changes = recorder.digest.changes()
        for place, (job, computed, num_new_tokens) in enumerate(express.prefills):
            context += computed
            prefill_tokens += num_new_tokens
            if place < express.num_chunks:
                kind = CHUNK
            else:
                job.waited_ns = recorder.waits.since(job.marks, job.waited_ns)
                kind = RESUMED if job.preemptions else ADMITTED
                if kind == ADMITTED:
                    job.first_scheduled_ns = now_ns
                    admitted += 1
                    query_tokens += job.num_tokens
            changes.extend((kind, job.row, num_new_tokens, computed))
        return Granted(context, prefill_tokens, query_tokens, admitted, changes)

    def _was_cut(self) -> bool:
        """Whether the budget cut a prompt in the pass just scheduled."""
        prefills = self.express.prefills
        return self.express.tokens_left <= 0 and bool(prefills) and prefills[-1][0].is_prefill_chunk

    def _evicted(self) -> tuple[int, ...]:
        """Note who was evicted in the pass; its columns."""
        express = self.express
        for job, _ in express.victims:
            job.marks = self._recorder.waits.mark()
        count = len(express.victims)
        cancelled = len(express.waiting) - count
        fit = express.admissions_that_fit() if cancelled else 0
        thrown = sum(computed for _, computed in express.victims)
        return (count, thrown, cancelled, fit, max(express.tokens_left, 0))

    def _note_places(self, last_end_ns: int) -> None:
        """Note what the victims of a pass got, until it was scheduled, since they began."""
        for job, _ in self.express.victims:
            if 0 <= job.began < self._recorder.num_passes:  # it decoded
                largest = self._recorder.peaks.largest_since(job.began)
                job.itl_max_ns = max(job.itl_max_ns, largest)
                job.last_token_ns = last_end_ns
            job.began = -1

    def _execute(self, decodes: int, context_tokens: int, prefill_tokens: int) -> int:
        this_pass = self._pass
        this_pass.prefills = self.express.prefills
        this_pass.decode_tokens = decodes
        this_pass.context_tokens = context_tokens
        this_pass.total_num_scheduled_tokens = decodes + prefill_tokens
        this_pass.num_seqs = decodes + len(this_pass.prefills)
        return int(self._runner.execute(this_pass).duration_ns)

    def _emitted(self, end: int, decodes: int, done: list[Job], ended: list[Job]) -> int:
        """Note the tokens of a pass, and who ended; how many blocks those gave back."""
        recorder = self._recorder
        gap = end - recorder.last_end_ns
        recorder.peaks.push(recorder.num_passes, gap)
        counts = end >= recorder.warmup_ns
        if decodes and counts:
            recorder.itl[gap] += decodes
        for job in done:
            if job.first_token_ns < 0:
                job.first_token_ns = end
            else:
                own = end - job.last_token_ns
                job.itl_max_ns = max(job.itl_max_ns, own)
                if counts:
                    recorder.itl[own] += 1
            job.last_token_ns = end
        recorder.last_end_ns = end
        recorder.num_passes += 1
        freed = 0
        for job in ended:
            freed += job.num_blocks
            self._ended(job)
        return freed

    def _ended(self, job: Job) -> None:
        if job.began >= 0:
            largest = self._recorder.peaks.largest_since(job.began)
            job.itl_max_ns = max(job.itl_max_ns, largest)
        self.num_finished += 1
        self._requests.add(job, self.now_ns)
