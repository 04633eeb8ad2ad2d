"""The express way with a pass in flight: pass x is scheduled before pass x - 1 is folded in.

What differs from express.py is when things are seen:

    a prompt computed in pass y    decodes from pass y + 1 on, before its first token has come
    a last token, in pass e        is seen by the fold after the schedule of pass e + 1; there the
                                   job is stepped over if its cap is sure to be reached, or
                                   scheduled in vain if the model ends it by itself
    a full block                   is hashed by the schedule that opens the next one

Counts of a decoding job run ahead as well: they are those it has once the pass in flight is folded
in. So an evicted job waits with the token that is still in flight counted; if that is its last one,
it ends where it waits.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from schedbench.sched.express import Express, Job, place_of

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.express import Chunk
    from schedbench.sched.prefix_identity import PrefixNames


class ExpressAhead(Express):
    """As `Express`; `fold_pass` is for the pass before the one scheduled last."""

    def __init__(self, config: SchedulerConfig, names: PrefixNames) -> None:
        super().__init__(config, names)
        self.joining: list[Job] = []  # their prompts are computed by the pass in flight
        self.ending: list[Job] = []  # in flight with their last token
        self._leaving: list[Job] = []  # the same, when the last pass was scheduled
        self.ended_waiting: list[Job] = []  # by the last fold: evicted with their last token
        self._num_hashed_already = 0  # of the blocks filled by those who begin to decode now
        self._output_in_flight: dict[Job, int] = {}  # tokens, of the victims of the last pass
        # Of the pass scheduled last, whoever decodes in vain included:
        self.decodes_scheduled = 0
        self.context_scheduled = 0
        self.num_in_vain = 0

    def longest_run(self) -> int:
        """Passes that can be scheduled in which all running decode; 0 if the next is not one."""
        self.settle()
        return 0 if self.ending else super().longest_run()

    def run(self, num_passes: int) -> list[Job]:
        """Schedule so many passes. Nobody ends: the last token of whoever might is in flight."""
        phase = self.index % self._size
        cycles, rest = divmod(num_passes, self._size)
        opened = cycles * self.num_decodes + sum(self._opens[phase : phase + rest])
        self.pool.take(opened)
        if self._caches:
            self.pool.num_cached += opened - self._num_hashed_already
        self._num_hashed_already = 0
        self.index += num_passes
        self.context_tokens += num_passes * self.num_decodes
        return []

    def schedule_pass(self) -> bool:
        """Schedule one pass; False, and nothing done, if it is one for the plain loops.

        Those are a pass that schedules nothing, and one whose only request evicts itself.
        """
        self._begin_pass()
        in_vain = [job for job in self.ending if job.ends_by_itself]
        opening_in_vain = [job for job in in_vain if job.computed % self._size == 0]
        opening = self._opens[self.index % self._size] + len(opening_in_vain)
        num_decodes = self.num_decodes + len(in_vain)
        chunks, need = self._chunks(self._budget - num_decodes)
        if chunks is None or (self.tokens_left <= 0 and self._last_is_stepped_over()):
            return False
        if opening + need > self.pool.num_free:
            return self._schedule_short(chunks)
        self._settle_blocks(opening, opening_in_vain)
        self._go_on(chunks)
        self._admit()
        if not (num_decodes or self.prefills or self.ending):
            return False
        self._close_pass(self.ending)
        return True

    def _last_is_stepped_over(self) -> bool:
        """Whether the budget may end before the last one running, which can have no tokens."""
        if not self.ending:
            return False
        last = self._last_running()
        return last in self.ending and not last.ends_by_itself

    def _close_pass(self, leaving: list[Job]) -> None:
        """Count what is scheduled as computed; `leaving` have their last token in flight."""
        in_vain = [job for job in self.ending if job.ends_by_itself]
        self.decodes_scheduled = self.num_decodes + len(in_vain)
        self.num_in_vain = len(in_vain)
        self.context_scheduled = self.context_tokens + sum(job.computed for job in in_vain)
        self.index += 1
        self.context_tokens += self.num_decodes
        self._leaving, self.ending = leaving, []
        self.prompts = []
        for job, computed, num_new_tokens in self.prefills:
            job.computed = computed + num_new_tokens
            if job.is_prefill_chunk:
                self.prompts.append(job)
            else:
                self.joining.append(job)

    def fold_pass(self) -> tuple[list[Job], list[Job]]:
        """Fold in the pass before the one scheduled last; who ended, in their order."""
        ended, self._leaving = self._leaving, []
        self.ended_waiting = [job for job in ended if job not in self.running]
        for job in ended:
            if job not in self.running:
                waiting = self.waiting
                assert isinstance(waiting, deque)  # nothing is preempted under priority
                waiting.remove(job)
                self._give_back(job)
                continue
            held = job.computed
            seen = held // self._size if job.began < 0 else (held - 1) // self._size
            if self._caches:
                job.num_hashed = held // self._size
                if not job.ends_by_itself:  # no schedule saw its last block full
                    self.pool.num_cached += job.num_hashed - seen
            job.num_blocks = -(-(held + job.ends_by_itself) // self._size)
            del self.running[job]
            self._give_back(job)
        return ended, []

    def _schedule_short(self, chunks: list[Chunk]) -> bool:
        """Schedule a pass in which blocks do not suffice for all that run."""
        if len(self.running) == 1 or self.config.policy == "priority":
            return False
        leaving = self.ending.copy()
        self._output_in_flight.clear()
        self._walk(chunks)
        self._num_hashed_already = 0
        self._close_pass(leaving)
        self.tokens_left = self._budget - self.decodes_scheduled - self._prompt_tokens()
        return True

    def _opens_and_fills(self, job: Job) -> tuple[bool, bool]:
        """Whether a job opens a block in the next pass, and whether that hashes the one before."""
        if job in self.ending:
            opens = job.ends_by_itself and job.computed % self._size == 0
            return opens, opens and job.began >= 0
        opens = (job.computed + self.index - job.began) % self._size == 0
        return opens, opens and job.began < self.index

    def _evict(self, job: Job) -> None:
        self._output_in_flight[job] = int(job not in self.prompts)
        super()._evict(job)

    def _known_tokens(self, job: Job) -> int | None:
        """A victim's output in flight is counted among its tokens, and not known yet."""
        in_flight = self._output_in_flight.get(job)
        if in_flight is None:
            return job.num_tokens
        return None if self.config.behaviour.stale_output else job.num_tokens - in_flight

    def _take_off(self, job: Job) -> None:
        """Take a job that is evicted off the ledger; what its next schedule would hash is not."""
        if job in self.ending:
            self.ending.remove(job)
        else:
            self._ends[job.end].remove(job)
            self.part(job)
        if self._caches and 0 <= job.began < self.index:
            job.num_hashed = (job.computed - 1) // self._size

    def settle(self) -> None:
        """Let decode whose prompts are computed, and take out whose last token is in flight."""
        for job in self.joining:
            job.num_tokens += 1
            job.emitted += 1
            if job.emitted == job.will_emit:
                self.ending.append(job)
                continue
            self._num_hashed_already += job.computed % self._size == 0
            self._join(job)
        self.joining.clear()
        order = self._end_order
        if order and order[0] < self.index:
            jobs = self._ends.pop(heapq.heappop(order))
            for job in jobs:
                self.part(job)
            self.ending += jobs
            self.ending.sort(key=place_of)

    def in_flight(self) -> list[Job]:
        """Whoever has a token in flight, in running order; after `settle`."""
        prompts = set(self.prompts)
        return [job for job in self.running if job not in prompts]

    def take_back(self, job: Job) -> int:
        """Give a job the counts from before its token in flight; the passes it decoded till then.

        Its prompt, if that is what is in flight, is not decoded: -1 then.
        """
        job.placeholders = 1
        if job not in self.ending:
            self.part(job)
        job.num_tokens -= 1
        job.emitted -= 1
        if not 0 <= job.began < self.index:
            return -1
        if self._caches:  # the last full block is hashed by the schedule that comes
            job.num_hashed = (job.computed - 1) // self._size
        return self.index - 1 - job.began

    def _settle_blocks(self, opening: int, in_vain: list[Job]) -> None:
        """Open the decodes' blocks, and hash those that became full."""
        self.pool.take(opening)
        if self._caches:
            prompts_only = sum(job.began < 0 for job in in_vain)
            self.pool.num_cached += opening - self._num_hashed_already - prompts_only
        self._num_hashed_already = 0
