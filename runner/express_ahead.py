"""The replay's express way with a pass in flight: rows are written a pass later than decided."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.runner.cut import LONGEST_RUN, cut_run_ahead
from schedbench.runner.express import LIST_DONE, NO_EVICTIONS, STOPS, ExpressReplay
from schedbench.runner.record import VICTIM
from schedbench.sched.express_ahead import ExpressAhead
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.results.run_rows import Integers
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.express import Job


@dataclass(slots=True)
class Pending:
    """What was decided of the pass in flight."""

    start_ns: int
    duration_ns: int
    decodes: int
    context_tokens: int  # of the whole pass
    in_vain: int
    prefill_tokens: int
    prefills: list[tuple[Job, int, int]]
    done: list[Job]  # of those, whose prompt is computed
    running: int
    waiting: int
    admitted: int
    resumed: int
    evictions: tuple[int, ...]
    victims: list[int]  # their rows
    freed_preempt: int
    running_stop: Verdict
    stop: Verdict
    cut: bool
    query_tokens: int
    decisions: int
    scheduler_ns: int


class ExpressAheadReplay(ExpressReplay):
    """As `ExpressReplay`; the pass scheduled last is always in flight."""

    express: ExpressAhead
    pending: Pending | None = None

    @staticmethod
    def make(config: SchedulerConfig) -> ExpressAhead:
        return ExpressAhead(config)

    def _idle(self) -> bool:
        """Fold in what is in flight when nobody is left; whether there was something."""
        if self.pending is None:
            return False
        self._fold(self.pending)
        self.pending = None
        return True

    def _step(self, until_ns: int | None) -> bool:
        express, pending = self.express, self.pending
        num_passes = express.longest_run()
        if num_passes and pending is not None:
            self._run_ahead(pending, min(num_passes, LONGEST_RUN), until_ns)
            return True
        began = time.perf_counter_ns()
        if not express.schedule_pass():
            return False
        new = self._decided(time.perf_counter_ns() - began)
        if pending is not None:
            self._fold(pending)
            self._note_places(self.now_ns)
        self.pending = new
        return True

    def _decided(self, spent: int) -> Pending:
        express, recorder, now = self.express, self._recorder, self.now_ns
        recorder.waits.advance(now)
        prefills, decodes = express.prefills, express.decodes_scheduled
        victims = [job.row for job, _ in express.victims]
        evictions = self._evicted() if victims else NO_EVICTIONS
        granted = self._grants(now)
        for row in victims:
            granted.changes.extend((VICTIM, row))
        context = express.context_scheduled + granted.context_tokens
        stop, running_stop = express.admission_stop, express.running_stop
        recorder.waits.schedule_ended(stop, [])
        stops = STOPS[running_stop.number][stop.number]
        decisions = recorder.digest.changed(granted.changes, stops)
        return Pending(
            start_ns=now,
            duration_ns=self._execute(decodes, context, granted.prefill_tokens),
            decodes=decodes,
            context_tokens=context,
            in_vain=express.num_in_vain,
            prefill_tokens=granted.prefill_tokens,
            prefills=prefills,
            done=[job for job, _, _ in prefills if not job.is_prefill_chunk],
            running=len(express.running),
            waiting=len(express.waiting),
            admitted=granted.admitted,
            resumed=express.num_resumed,
            evictions=evictions,
            victims=victims,
            freed_preempt=express.blocks_freed,
            running_stop=running_stop,
            stop=stop,
            cut=self._was_cut(),
            query_tokens=granted.query_tokens,
            decisions=decisions,
            scheduler_ns=spent,
        )

    def _fold(self, pending: Pending) -> None:
        """Fold in the pass in flight; its row has the blocks as they are then."""
        express = self.express
        began = time.perf_counter_ns()
        ended, _ = express.fold_pass()
        spent = pending.scheduler_ns + time.perf_counter_ns() - began
        end = self.now_ns = self.now_ns + pending.duration_ns
        decodes = pending.decodes - pending.in_vain
        if express.ended_waiting:
            waits = self._recorder.waits
            waits.advance(end)
            for job in express.ended_waiting:
                job.waited_ns = waits.since(job.marks, job.waited_ns)
        freed = self._emitted(end, decodes, pending.done, ended)
        pool = express.pool
        self._steps.add(
            (
                *(1, pending.start_ns, pending.duration_ns, pending.decodes),
                *(pending.context_tokens, pending.prefill_tokens, len(pending.prefills)),
                *(decodes + len(pending.done), pending.running, pending.waiting, pending.admitted),
                *(pending.resumed, len(ended), len(express.ended_waiting), *pending.evictions),
                *(pending.running_stop.number, pending.stop.number, pending.cut, pool.num_free, 0),
                *(pool.num_cached, pending.freed_preempt, freed, pending.query_tokens),
                *(spent, -1, 0),
            ),
            pending.decisions,
            victims=pending.victims,
        )

    def _run_ahead(self, pending: Pending, num_passes: int, until_ns: int | None) -> None:
        """Schedule passes of decodes, and fold in as many: from the one in flight on."""
        express, recorder, now = self.express, self._recorder, self.now_ns
        began = time.perf_counter_ns()
        decodes, context = express.num_decodes, express.context_tokens
        durations: int | Integers = self._runner.decode_durations(decodes, context, num_passes)
        first_ns = pending.duration_ns
        due = self._due_ns(until_ns)
        num_passes, durations = cut_run_ahead(first_ns, durations, num_passes, now, due)
        stop = express.blocked or Verdict.QUEUES_EMPTY
        express.run(1)
        recorder.waits.advance(now)
        recorder.waits.schedule_ended(stop, [])
        decisions = recorder.digest.stops_are(STOPS[LIST_DONE][stop.number])
        self._fold(pending)
        first = durations if isinstance(durations, int) else int(durations[0])
        last = durations if isinstance(durations, int) else int(durations[-1])
        self.pending = Pending(
            start_ns=now,
            duration_ns=last,
            decodes=decodes,
            context_tokens=context + decodes * (num_passes - 1),
            in_vain=0,
            prefill_tokens=0,
            prefills=[],
            done=[],
            running=len(express.running),
            waiting=len(express.waiting),
            admitted=0,
            resumed=0,
            evictions=NO_EVICTIONS,
            victims=[],
            freed_preempt=0,
            running_stop=Verdict.LIST_DONE,
            stop=stop,
            cut=False,
            query_tokens=0,
            decisions=decisions,
            scheduler_ns=0,
        )
        others = num_passes - 1
        if others:
            pool, phase = express.pool, express.index % self._config.block_size
            blocks = (pool.num_free, pool.num_bare, pool.num_cached)
            opens = express.opens()
            express.run(others)
            if not isinstance(durations, int):
                durations = durations[:others]
            folded_from = self.now_ns
            self.now_ns = recorder.intervals(others, decodes, folded_from, durations)
            recorder.last_end_ns = self.now_ns
            recorder.num_passes += others
            before_last = durations if isinstance(durations, int) else int(durations[-1])
            self.pending.start_ns = self.now_ns - before_last
            spent = (time.perf_counter_ns() - began) // num_passes
            self._steps.add(
                (
                    *(others, now, first, decodes, context, 0, 0, decodes),
                    *(self.pending.running, self.pending.waiting, 0, 0, 0, 0, *NO_EVICTIONS),
                    *(LIST_DONE, stop.number, 0, *blocks, 0, 0, 0, spent, phase, first_ns),
                ),
                decisions,
                opens=opens,
                durations_ns=durations,
            )
