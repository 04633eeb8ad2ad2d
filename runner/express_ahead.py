"""The replay's express way with a pass in flight: rows are written a pass later than decided."""

from __future__ import annotations

import time
from collections.abc import Sequence  # noqa: TC003 - of a dataclass's field, wanted when compiled
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.runner.cut import LONGEST_RUN, cut_run_ahead
from schedbench.runner.express import ExpressReplay
from schedbench.runner.express_batch import pack_pass, pack_run
from schedbench.runner.express_ledger import wait_where_it_stood
from schedbench.sched.express import QUEUES_EMPTY, Job
from schedbench.sched.express_ahead import ExpressAhead
from schedbench.sched.verdicts import Verdict  # noqa: TC001 - of a dataclass's field

if TYPE_CHECKING:
    from schedbench.results.run_rows import Integers
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.prefix_identity import PrefixNames


@dataclass(slots=True)
class Pending:
    """What was decided of the pass in flight."""

    start_ns: int
    duration_ns: int
    decodes: int
    context_tokens: int  # of the whole pass
    num_running: int
    num_waiting: int
    num_free: int  # blocks, at the end of `schedule()`
    num_cached: int
    stop: Verdict
    scheduler_ns: int
    in_vain: int = 0
    prefills: Sequence[tuple[Job, int, int]] = ()
    grants: bytes = b""  # packed
    done: Sequence[Job] = ()  # of those prefills, whose prompt is computed
    cut: bool = False
    eviction: tuple[int, ...] = ()  # its row among the batch's, but for the place
    victims: Sequence[int] = ()  # their rows


class ExpressAheadReplay(ExpressReplay):
    """As `ExpressReplay`; the pass scheduled last is always in flight."""

    pending: Pending | None = None

    def _make(self, config: SchedulerConfig, names: PrefixNames) -> ExpressAhead:
        self.ahead = ExpressAhead(config, names)  # the base knows it as `express`
        return self.ahead

    def _pending_stop(self) -> tuple[int, int] | None:
        pending = self.pending
        return None if pending is None else (pending.start_ns, pending.stop.number)

    @property
    def next_step(self) -> int:
        return super().next_step + (self.pending is not None)

    def _idle(self) -> bool:
        """Fold in what is in flight when nobody is left; whether there was something."""
        if self.pending is None:
            return False
        self._fold(self.pending)
        self.pending = None
        return True

    def _step(self, until_ns: int | None) -> bool:
        express, pending = self.ahead, self.pending
        num_passes = express.longest_run()
        if num_passes and pending is not None:
            self._run_ahead(pending, min(num_passes, LONGEST_RUN), until_ns)
            return True
        began = time.perf_counter_ns()
        if not express.schedule_pass():
            return False
        new = self._decided(time.perf_counter_ns() - began)
        if pending is not None:
            self._fold(pending, new)
            self._note_decoded()
        self.pending = new
        return True

    def _decided(self, spent: int) -> Pending:
        express, now = self.ahead, self.now_ns
        decodes, grants = express.decodes_scheduled, bytearray()
        eviction = self._evicted() if express.victims else ()
        context, granted = self._grants(now, grants)
        context += express.context_scheduled
        prefills = express.prefills
        return Pending(
            now,
            self._execute(decodes, context, granted),
            decodes,
            context,
            len(express.running),
            len(express.waiting),
            express.pool.num_free,
            express.pool.num_cached,
            express.admission_stop,
            spent,
            in_vain=express.num_in_vain,
            prefills=prefills,
            grants=bytes(grants),
            done=[job for job, _, _ in prefills if not job.is_prefill_chunk],
            cut=express.tokens_left <= 0 and self._was_cut(),
            eviction=eviction,
            victims=[job.row for job, _ in express.victims],
        )

    def _fold(self, pending: Pending, after: Pending | None = None) -> None:
        """Fold in the pass in flight; `after` is the pass scheduled since, if there is one."""
        express, batch = self.ahead, self._batch
        began = time.perf_counter_ns()
        ended, _ = express.fold_pass()
        spent = pending.scheduler_ns + time.perf_counter_ns() - began
        end = self.now_ns = self.last_end_ns = self.now_ns + pending.duration_ns
        in_step = pending.decodes - pending.in_vain
        for job in express.ended_waiting:
            assert after is not None  # it was evicted by that one
            wait_where_it_stood(job, after.stop, end - after.start_ns)
        self._emitted(end, pending.done)
        freed = self._ended(ended) if ended else 0
        if pending.victims:
            batch.victims[batch.num_steps] = pending.victims
            batch.evictions.append((batch.num_steps, *pending.eviction))
        batch.grants += pending.grants
        batch.passes += pack_pass(
            batch.num_steps, pending.start_ns, end, pending.duration_ns, pending.decodes,
            pending.context_tokens, in_step, len(pending.done), pending.num_running,
            pending.num_waiting, len(ended), pending.stop.number, pending.cut, pending.num_free,
            pending.num_cached, freed, spent, len(batch.grants), len(express.ended_waiting),
        )  # fmt: skip
        batch.num_steps += 1
        self.num_passes += 1

    def _run_ahead(self, pending: Pending, num_passes: int, until_ns: int | None) -> None:
        """Schedule passes of decodes, and fold in as many: from the one in flight on."""
        express, now = self.ahead, self.now_ns
        began = time.perf_counter_ns()
        decodes, context = express.num_decodes, express.context_tokens
        durations: int | Integers = self._runner.decode_durations(decodes, context, num_passes)
        first_ns, due = pending.duration_ns, self._due_ns(until_ns)
        num_passes, durations = cut_run_ahead(first_ns, durations, num_passes, now, due)
        stop = express.blocked or QUEUES_EMPTY
        express.run(1)
        self._fold(pending)
        last = durations if isinstance(durations, int) else int(durations[-1])
        num_running, num_waiting = len(express.running), len(express.waiting)
        pool = express.pool
        free, bare, cached = pool.num_free, pool.num_bare, pool.num_cached
        self.pending = Pending(
            now, last, decodes, context + decodes * (num_passes - 1), num_running, num_waiting,
            free, cached, stop, 0,
        )  # fmt: skip
        others, batch = num_passes - 1, self._batch
        if not others:
            return
        phase = express.index % self._block_size
        batch.opens += express.opens
        express.run(others)
        self.pending.num_free, self.pending.num_cached = pool.num_free, pool.num_cached
        if isinstance(durations, int):
            first = before_last = durations
            end = self.now_ns + others * durations
        else:
            durations = batch.durations[batch.num_steps] = durations[:others]
            first, before_last = int(durations[0]), int(durations[-1])
            end = self.now_ns + int(durations.sum())
        self.now_ns = self.last_end_ns = end
        self.pending.start_ns = end - before_last
        spent = (time.perf_counter_ns() - began) // num_passes
        batch.runs += pack_run(
            batch.num_steps, others, now, end, first, decodes, context, num_running, num_waiting,
            0, stop.number, free, bare, cached, 0, spent, phase, first_ns,
        )  # fmt: skip
        batch.num_steps += 1
        self.num_passes += others
