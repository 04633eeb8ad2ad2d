"""The replay's express way: arrivals, passes and rows of a trace of plain text.

It begins with the replay and ends with the trace; or before, at the first event or at a pass that
the plain loops have to see, with everything put where those find it (`express_exit.py`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from schedbench.runner.cut import LONGEST_RUN, cut_run
from schedbench.runner.decision_digest import ADMITTED, CHUNK, RESUMED
from schedbench.runner.express_arrivals import coming_by
from schedbench.runner.express_batch import (
    MOST_OPENS,
    Batch,
    pack_end,
    pack_grant,
    pack_pass,
    pack_run,
)
from schedbench.runner.express_rows import ExpressRows
from schedbench.runner.so_far import SoFar
from schedbench.sched.express import QUEUES_EMPTY, Express, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from schedbench.results.row_buffer import Log
    from schedbench.results.run_rows import Integers
    from schedbench.runner.arrivals import ArrivalMode
    from schedbench.runner.record import Recorder
    from schedbench.runner.requests import RequestSource
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.prefix_identity import PrefixNames
    from schedbench.workloads.trace import Trace

TELL_EVERY = 512  # passes
MOST_PASSES = 65536  # before rows are made of them
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
PREFIXES = {"hash_ids", "cache_salt"}
"""Those of prompts that share prefixes."""


class PassAsRun:
    """What a runner has to know of a pass: what such a trace fills of a `SchedulerOutput`."""

    def __init__(self) -> None:
        self.prefills: list[tuple[Job, int, int]] = []
        self.decode_tokens = 0
        self.context_tokens = 0
        self.total_num_scheduled_tokens = 0
        self.num_seqs = 0
        self.scheduled_spec_decode_tokens: dict[str, int] = {}


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
        *,
        arrivals: ArrivalMode = "open",
        think_ns: int | None = None,
    ) -> None:
        self.source = source
        self.express = self._make(config, source.names)
        self.coming = coming_by(arrivals, trace, config.max_model_len, source, think_ns)
        self.now_ns = 0
        self.num_finished = self.num_passes = 0
        self.last_end_ns = 0  # of the last pass folded in
        self._runner = runner
        self._duration_of: Callable[[int], int] | None = getattr(runner, "duration_of", None)
        self._recorder = recorder
        self._block_size = config.block_size
        self._batch = Batch(1, config.block_size)
        self._rows = ExpressRows(logs, trace, config, recorder)
        self._pass = PassAsRun()
        self._num_freed = 0  # blocks, by those that ended in the steps noted so far
        self._closed = False

    def _make(self, config: SchedulerConfig, names: PrefixNames) -> Express:
        """Make the scheduler of this way."""
        return Express(config, names)

    def run(self, until_ns: int | None, tell: Callable[[int], None]) -> bool:
        """Replay until nothing is left to come, or `until_ns`; False if something is left."""
        express, coming = self.express, self.coming
        told, every = 0, min(TELL_EVERY, max(MOST_OPENS // self._block_size, 1))
        while until_ns is None or self.now_ns < until_ns:
            if coming.next_ns is not None and coming.next_ns <= self.now_ns:
                coming.take(self.now_ns, self.next_step, express.waiting)
                express.requests_came()
            if express.running or express.waiting:
                if not self._step(until_ns):
                    return False
                if self.num_passes - told >= every:
                    tell(self.num_passes - told)
                    told = self.num_passes
                    if self._batch.is_full or told - self._recorder.num_passes >= MOST_PASSES:
                        self._write()
            elif not self._idle():
                due = self._due_ns(until_ns)
                if coming.next_ns is None or due is None:
                    return True
                self.now_ns = due
        return False

    def so_far(self) -> SoFar:
        """How far this way has led."""
        express = self.express
        num_running, num_waiting = len(express.running), len(express.waiting)
        return SoFar(
            self.now_ns,
            self.num_passes,
            self.num_finished,
            num_running + num_waiting,
            num_running,
            num_waiting,
            express.pool.num_free,
        )

    def close(self) -> None:
        """Write what is pending, if that is not done; the recorder then has seen every pass."""
        if not self._closed:
            self._closed = True
            self._batch.trim(self.next_step)
            self._write()
            self._rows.hand_over(self.express.waiting)

    def _write(self) -> None:
        """Make rows of what there is, and begin a new batch."""
        batch, express = self._batch, self.express
        self._batch = Batch(batch.first + batch.num_steps, self._block_size)
        self._rows.write(batch, express.running, express.waiting, self._pending_stop())

    def _pending_stop(self) -> tuple[int, int] | None:
        """Start and stop of a pass that is not folded in yet."""
        return None

    @property
    def next_step(self) -> int:
        """Of the step that is scheduled next."""
        return self._batch.first + self._batch.num_steps

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

    def _run(self, num_passes: int, until_ns: int | None) -> None:
        """A run of decodes, ended before the first pass that starts when something happens."""
        express, batch, now = self.express, self._batch, self.now_ns
        began = time.perf_counter_ns()
        decodes, context = express.num_decodes, express.context_tokens
        durations: int | Integers = self._runner.decode_durations(decodes, context, num_passes)
        num_passes, durations = cut_run(durations, num_passes, now, self._due_ns(until_ns))
        if isinstance(durations, int):
            first_ns, end = durations, now + num_passes * durations
        else:
            first_ns, end = int(durations[0]), now + int(durations.sum())
            batch.durations[batch.num_steps] = durations
        pool, phase = express.pool, express.index % self._block_size
        free, bare, cached = pool.num_free, pool.num_bare, pool.num_cached
        num_running, num_waiting = len(express.running), len(express.waiting)
        stop = express.blocked or QUEUES_EMPTY
        batch.opens += express.opens
        ended = express.run(num_passes)
        spent = (time.perf_counter_ns() - began) // num_passes
        self.now_ns = self.last_end_ns = end
        freed = self._ended(ended) if ended else 0
        batch.runs += pack_run(
            batch.num_steps, num_passes, now, end, first_ns, decodes, context, num_running,
            num_waiting, len(ended), stop.number, free, bare, cached, freed, spent, phase, 0,
        )  # fmt: skip
        batch.num_steps += 1
        self.num_passes += num_passes

    def _one_pass(self) -> bool:
        """A pass with prompts or evictions; False if it is one for the plain loops."""
        express, batch, now = self.express, self._batch, self.now_ns
        began = time.perf_counter_ns()
        if not express.schedule_pass():
            return False
        spent = time.perf_counter_ns() - began
        decodes = express.num_decodes
        if express.victims:
            self._note_decoded()
            batch.victims[batch.num_steps] = [job.row for job, _ in express.victims]
            batch.evictions.append((batch.num_steps, *self._evicted()))
        context, granted = self._grants(now, batch.grants)
        was_cut = express.tokens_left <= 0 and self._was_cut()
        duration = self._execute(decodes, express.context_tokens + context, granted)
        context += express.context_tokens
        num_running, num_waiting = len(express.running), len(express.waiting)
        num_free, num_cached = express.pool.num_free, express.pool.num_cached
        stop = express.admission_stop.number
        began = time.perf_counter_ns()
        ended, done = express.fold_pass()
        spent += time.perf_counter_ns() - began
        end = self.now_ns = self.last_end_ns = now + duration
        self._emitted(end, done)
        freed = self._ended(ended) if ended else 0
        batch.passes += pack_pass(
            batch.num_steps, now, end, duration, decodes, context, decodes, len(done), num_running,
            num_waiting, len(ended), stop, was_cut, num_free, num_cached, freed, spent,
            len(batch.grants), 0,
        )  # fmt: skip
        batch.num_steps += 1
        self.num_passes += 1
        return True

    def _grants(self, now_ns: int, packed: bytearray) -> tuple[int, int]:
        """Note who is granted prompt tokens in the pass just scheduled; context and new tokens."""
        express, batch, step = self.express, self._batch, self.next_step
        chunks = express.num_chunks
        context = granted = 0
        for job, computed, num_new_tokens in express.prefills:
            if chunks:
                chunks, kind = chunks - 1, CHUNK
            else:
                if job.preemptions:
                    kind = RESUMED
                else:
                    kind, job.first_scheduled_ns = ADMITTED, now_ns
                if job.entered_step != step:
                    batch.waits.append((job, job.mark, job.entered_step, step))
                    job.mark = None
            context += computed
            granted += num_new_tokens
            packed += pack_grant(kind, job.row, num_new_tokens, computed)
        return context, granted

    def _was_cut(self) -> bool:
        """Whether a budget that is spent cut a prompt, in the pass just scheduled."""
        express = self.express
        if not express.prefills:
            return False
        job = express.prefills[-1][0]
        return job.is_prefill_chunk and job is next(reversed(express.running))

    def _evicted(self) -> tuple[int, ...]:
        """Note who was evicted in the pass just scheduled; `EVICTION_FIELDS`, but for the place."""
        express, step = self.express, self.next_step
        for job, _ in express.victims:
            job.entered_step = step
        count = len(express.victims)
        cancelled = len(express.waiting) - count
        fit = express.admissions_that_fit() if cancelled else 0
        thrown = sum(computed for _, computed in express.victims)
        stranded = max(express.tokens_left, 0)
        stop = express.running_stop.number
        return (count, thrown, cancelled, fit, stranded, express.blocks_freed, stop)

    def _note_decoded(self) -> None:
        """Note what the victims of a pass got since they began, up to the last one folded in."""
        batch = self._batch
        for job, _ in self.express.victims:
            if 0 <= job.began < self.num_passes:  # it decoded
                batch.decoded.append((job, job.began, batch.num_steps - 1))
                job.last_token_ns = self.last_end_ns
            job.began = -1

    def _execute(self, decodes: int, context_tokens: int, prefill_tokens: int) -> int:
        if self._duration_of is not None:
            return self._duration_of(decodes + prefill_tokens)
        this_pass = self._pass
        this_pass.prefills = self.express.prefills
        this_pass.decode_tokens = decodes
        this_pass.context_tokens = context_tokens
        this_pass.total_num_scheduled_tokens = decodes + prefill_tokens
        this_pass.num_seqs = decodes + len(this_pass.prefills)
        return int(self._runner.execute(this_pass).duration_ns)

    def _emitted(self, end: int, done: Sequence[Job]) -> None:
        """Note the tokens of those whose prompt was computed."""
        for job in done:
            if job.first_token_ns < 0:
                job.first_token_ns = end
            else:
                own = end - job.last_token_ns
                job.itl_max_ns = max(job.itl_max_ns, own)
                if end >= self._recorder.warmup_ns:
                    self._recorder.itl[own] += 1
            job.last_token_ns = end

    def _ended(self, jobs: list[Job]) -> int:
        """Note who got the last token in a step, by its end; how many blocks that freed."""
        batch, now = self._batch, self.now_ns
        ends, place = batch.ends, batch.num_steps
        for job in jobs:
            ends += pack_end(
                job.row, job.emitted, job.first_scheduled_ns, job.first_token_ns, now,
                job.cached_tokens, job.resumed_cached_tokens, job.preemptions, job.preempted_tokens,
                job.arrival_ns, job.entered_ns, job.began, place,
            )  # fmt: skip
            self.coming.finished(job, now)
        batch.ended += jobs
        self.num_finished += len(jobs)
        freed = self.express.num_freed - self._num_freed
        self._num_freed += freed
        return freed
