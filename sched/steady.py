"""The short way through passes in which nothing but decoding happens.

While every running request decodes one token a pass and blocks suffice, the order of the running
list cannot matter, and nothing about a single request has to be touched. For each decoding request
it is enough to know the pass in which it began to decode (`_joined`); then

    who opens a block in pass p    is a bucket, p modulo the block size
    who ends in pass p             is in a calendar
    how much context is read       grows by one token a request and pass

so that a run of k such passes is a handful of additions. The decoding requests' own counters stand
still meanwhile and are caught up with when one of them ends or when anything else wants to look
(`leave`). Admissions happen between runs, by the very admission loop, with the decodes' tokens
taken off its budget beforehand.

Whatever this room does not cover - a request in the middle of its prefill, a pool too short,
drafts, passes in flight, a policy of one's own - takes the plain way, and both give equal passes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.sched.fold import fold, stop_status
from schedbench.sched.kv_cache.counting import CountingKVCache
from schedbench.sched.output import EngineCoreOutputs, ModelRunnerOutput
from schedbench.sched.request import FINISH_REASON
from schedbench.sched.schedule_pass import SchedulePass
from schedbench.sched.verdicts import Kind, Verdict

if TYPE_CHECKING:
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

Ended = list[tuple["Request", int]]  # requests, and the passes they decoded in while put aside

PATIENCE = 4  # plain passes after a failed try, so that failing costs little


@dataclass(slots=True)
class DecodeRun:
    """`num_passes` equal passes: the state before the first, and what grows by how much.

    `opens[i]` blocks are opened in pass i, i modulo the block size; the pass before, as many become
    full. All counts are of requests, tokens or blocks.
    """

    num_passes: int
    num_decodes: int
    context_tokens: int  # in the first pass; grows by `num_decodes` a pass
    opens: list[int]
    phase: int  # the first pass's place in `opens`
    num_free: int
    num_bare: int
    num_cached: int
    stop: Verdict
    num_running: int
    num_waiting: int
    num_skipped: int
    ended: Ended  # in the last pass
    num_freed: int  # by those


class SteadyDecodes:
    """A scheduler's decoding requests, put aside while nothing happens to them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._possible = is_possible(scheduler)
        self._block_size = scheduler.config.block_size
        self._caches = scheduler.config.enable_prefix_caching
        self._joined: dict[Request, int] = {}
        self._is_in = False
        self._wait = 0
        self._reset()

    def _reset(self) -> None:
        self.index = 0  # passes since everyone was put aside
        self.context_tokens = 0  # read by the decodes of the next pass
        self._joined = {}
        self._opens = [0] * self._block_size
        self._ends: dict[int, list[Request]] = {}
        self._end_order: list[int] = []  # a heap of the calendar's passes
        self._blocked: Verdict | None = None  # what keeps the head of the queue out
        self._floor = 0  # free blocks below which that verdict would have another name
        self._has_chunk = False

    @property
    def num_decodes(self) -> int:
        return len(self._joined)

    def enter(self) -> bool:
        """Put the decodes aside, if the next pass can go the short way."""
        if self._is_in:
            return not self._has_chunk and len(self._joined) <= self._scheduler.config.token_budget
        if not self._possible:
            return False
        if self._wait:
            self._wait -= 1
            return False
        running = self._scheduler.running
        if not 0 < len(running) <= self._scheduler.config.token_budget:
            return False
        if any(r.num_tokens - r.num_computed_tokens != 1 for r in running):
            return False
        if any(request.is_prefill_chunk for request in running):
            return False
        self._reset()
        self._is_in = True
        for request in running:
            self._join(request)
        return True

    def leave(self) -> Ended:
        """Catch up with every request's counters; who decoded, in how many passes."""
        if not self._is_in:
            return []
        self._is_in = False
        return [(request, self._catch_up(request)) for request in list(self._joined)]

    def wait_a_little(self) -> None:
        """Take the plain way for some passes."""
        self._wait = PATIENCE

    def somebody_came(self) -> None:
        """Look at the queue again: under priority the newcomer may stand at its head."""
        if self._scheduler.config.policy == "priority":
            self._blocked = None

    def wants_admission(self) -> bool:
        """Whether somebody waits who may be let in, as far as is known."""
        return self._blocked is None and len(self._scheduler.queues) > 0

    def longest_run(self) -> int:
        """Passes until a request ends or blocks run short; 0 if they are short already."""
        limit = self._end_order[0] - self.index + 1 if self._end_order else 1
        room = self._scheduler.kv_cache.pool.num_free - self._floor
        if len(self._joined) * (limit // self._block_size + 1) <= room:
            return limit
        for num_passes in range(limit):
            room -= self._opens[(self.index + num_passes) % self._block_size]
            if room < 0:
                return num_passes
        return limit

    def run(self, num_passes: int) -> DecodeRun:
        """Advance by passes in which nobody is admitted; whoever ends, ends in the last."""
        scheduler, pool = self._scheduler, self._scheduler.kv_cache.pool
        run = DecodeRun(
            num_passes,
            len(self._joined),
            self.context_tokens,
            self._opens.copy(),
            self.index % self._block_size,
            pool.num_free,
            pool.num_bare,  # type: ignore[attr-defined]
            pool.num_cached,
            self._blocked or Verdict.QUEUES_EMPTY,
            len(scheduler.running),
            len(scheduler.queues.waiting),
            len(scheduler.queues.skipped_waiting),
            [],
            -scheduler.blocks_freed_finish,
        )
        self._take_blocks(num_passes)
        self._advance(num_passes)
        run.ended = self._end([])
        run.num_freed += scheduler.blocks_freed_finish
        return run

    def schedule_admissions(self) -> SchedulerOutput | None:
        """Schedule a pass of all decodes and whoever can be admitted beside them.

        None if blocks are too short for the decodes themselves.
        """
        scheduler, pool = self._scheduler, self._scheduler.kv_cache.pool
        if self._opens[self.index % self._block_size] > pool.num_free:
            return None
        self._take_blocks(1)
        num_decodes = len(self._joined)
        budget = scheduler.config.token_budget
        this_pass = SchedulePass(budget, scheduler.config.encoder_budget, defer_prefills=False)
        this_pass.put_aside(num_decodes, self.context_tokens)
        this_pass.admission_stop = scheduler.admit(this_pass)
        self._note_stop(this_pass)
        return scheduler.close_pass(this_pass)

    def fold_admissions(self, output: SchedulerOutput) -> tuple[EngineCoreOutputs, Ended]:
        """Fold a pass in that `schedule_admissions` made; outputs, and who ended of the decodes."""
        scheduler = self._scheduler
        self._advance(1)
        finished: list[tuple[Request, str]] = []
        gone = self._end(finished)
        admitted = [grant.request for grant in output.prefills]
        sampled = {r.request_id: 1 for r in admitted if not r.is_prefill_chunk}
        outputs = fold(scheduler, output, ModelRunnerOutput(sampled))
        if outputs.finished:  # of those just admitted
            self._blocked = None
        outputs.finished[:0] = finished
        for request in admitted:
            if request.is_prefill_chunk:
                self._has_chunk = True
            elif not request.is_finished:
                self._join(request)
        return outputs, gone

    def _join(self, request: Request) -> None:
        """Put a request aside that decodes from the next pass on."""
        computed = request.num_computed_tokens
        self._joined[request] = self.index
        self.context_tokens += computed
        self._opens[(self.index - computed) % self._block_size] += 1
        cap = request.max_tokens if request.eos_after is None else request.eos_after
        left = min(
            min(cap, request.max_tokens) - request.num_output_tokens,
            self._scheduler.config.max_model_len - request.num_tokens,
        )
        end = self.index + left - 1
        if end not in self._ends:
            self._ends[end] = []
            heapq.heappush(self._end_order, end)
        self._ends[end].append(request)

    def _take_blocks(self, num_passes: int) -> None:
        """Open the blocks of the next passes, and hash those that become full in them."""
        size = self._block_size
        cycles, rest = divmod(num_passes, size)
        opened = full = cycles * len(self._joined)
        for offset in range(rest):
            opened += self._opens[(self.index + offset) % size]
            full += self._opens[(self.index + offset + 1) % size]
        pool = self._scheduler.kv_cache.pool
        pool.take(opened)  # type: ignore[attr-defined]
        if self._caches:
            pool.num_cached += full

    def _advance(self, num_passes: int) -> None:
        self.index += num_passes
        self.context_tokens += num_passes * len(self._joined)

    def _end(self, finished: list[tuple[Request, str]]) -> Ended:
        """End the requests whose last token came in the pass just done, adding to `finished`."""
        if not self._end_order or self._end_order[0] >= self.index:
            return []
        scheduler = self._scheduler
        ending = self._ends.pop(heapq.heappop(self._end_order))
        running = scheduler.running
        if len(ending) == 1:
            running.remove(ending[0])
        else:
            gone = set(ending)
            ending = [request for request in running if request in gone]
            scheduler.running = [request for request in running if request not in gone]
        ended = []
        for request in ending:
            computed_at_join = request.num_computed_tokens
            bucket = (self._joined[request] - computed_at_join) % self._block_size
            self._opens[bucket] -= 1
            ended.append((request, self._catch_up(request)))
            self.context_tokens -= request.num_computed_tokens
            del self._joined[request]
            status = stop_status(request, scheduler.config.max_model_len)
            assert status is not None
            request.status = status
            finished.append((request, FINISH_REASON[status]))
            scheduler.free_request(request)
        self._blocked = None
        return ended

    def _catch_up(self, request: Request) -> int:
        """Give a request the counters that the plain way would have given it."""
        num_passes = self.index - self._joined[request]
        request.num_tokens += num_passes
        request.num_computed_tokens += num_passes
        request.num_blocks = -(-request.num_computed_tokens // self._block_size)
        if self._caches:
            request.num_cached_blocks = request.num_computed_tokens // self._block_size
        return num_passes

    def _note_stop(self, this_pass: SchedulePass) -> None:
        """Remember what ended admission, if it will end it again until a request ends."""
        scheduler, stop = self._scheduler, this_pass.admission_stop
        self._blocked, self._floor = None, 0
        if this_pass.set_aside or stop.kind is not Kind.STOP:
            return
        if stop is Verdict.SEATS_FULL or (stop is Verdict.BUDGET_SPENT and not this_pass.prefills):
            self._blocked = stop
        elif stop in (Verdict.KV_BLOCKS_SHORT, Verdict.KV_BLOCKS_SHORT_WATERMARK):
            head = scheduler.queues.head()
            if head.encoder_inputs:
                return
            budget = scheduler.config.token_budget - len(self._joined) - len(this_pass.new)
            cap = scheduler.config.threshold or head.num_tokens
            if head.num_tokens > min(budget - len(this_pass.resumed), cap):
                return  # what it asks for depends on what it hits
            self._blocked = stop
            if stop is Verdict.KV_BLOCKS_SHORT_WATERMARK:
                self._floor = scheduler.kv_cache.blocks_for(head.num_tokens)


def is_possible(scheduler: Scheduler) -> bool:
    """Whether the short way covers what a scheduler is set up for."""
    config = scheduler.config
    return (
        isinstance(scheduler.kv_cache, CountingKVCache)
        and not scheduler.hooks
        and scheduler.return_path is None
        and scheduler.transfers is None
        and not config.runs_ahead
        and config.passes_in_flight == 1
        and not config.num_speculative_tokens
        and config.max_loras is None
    )
