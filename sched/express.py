"""The fast path for text: requests as numbers, none looked at while it decodes.

A request is the handful of numbers of a `Job`, and the passes are

    runs        `run(k)`: k passes in which all that run decode one token
    single      `schedule_pass()`, `fold_pass()`: the decodes, prompts in progress, admissions

Of a decoding job only the pass in which it began is kept (`began`, `computed`). With that, and p
counted from 0,

    which jobs open a block in pass p    is a bucket, p modulo the block size (`_opens`)
    which jobs end in pass p             is in a calendar (`_ends`)
    how much context is read             grows by one token a job and pass

No prompt in progress asks for more than it got in the pass before, but for one that the budget cut,
and that is the last one running; so all others get what they ask for, in any order. Blocks of
prompts are in a table with the names of their content, those of outputs are counts until the job is
preempted:

    |<- hit ->|<- named: of the prompt ->|<- full, by output: counted ->|<- bare ->|
    |<-------- job.table --------------->|
    |<------------------- job.num_hashed ------------------------------>|
    |<----------------------------- job.num_blocks ------------------------------->|

Where blocks do not suffice, the running list is walked and the last ones are preempted (`_walk`).
Under priority such a pass is left to the reference loops.

Answers are those of the reference loops. What is not covered here is not sent here (`covers`), or
goes on there, with the state put as those loops want it (`express_exit.py`).
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedbench.sched.kv_cache.block_pool import BlockPool
from schedbench.sched.kv_cache.block_table import BlockTable, Hit
from schedbench.sched.kv_cache.manager import which_term_is_short
from schedbench.sched.kv_cache.what_if import WhatIfPool
from schedbench.sched.token_demand import threshold_of_pass
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.prefix_identity import BlockNames, PrefixNames


LIST_DONE: Final = Verdict.LIST_DONE  # looked up once
QUEUES_EMPTY: Final = Verdict.QUEUES_EMPTY
NO_HIT: Final = Hit()


class Job:
    """One request; counts of tokens and blocks. -1: not yet.

    What holds for every job at first stands on the class, so that making one is cheap.
    """

    ends_by_itself = False  # the model does, and no cap is as near
    emitted = 0
    place = -1  # in the running list
    end = -1  # the pass of its last token
    began = -1  # the pass in which it began to decode; -1: it does not
    computed = 0  # of a decoding job, when it began
    is_prefill_chunk = False  # the last pass left known tokens uncomputed
    num_blocks = 0  # of a decoding job, when it began
    num_hashed = 0  # of those
    identity: BlockNames | None = None  # names of its blocks, if a request may look for them
    table: BlockTable | None = None  # the same, with the blocks of the prompt; lags behind decodes
    cached_tokens = 0  # found in the cache by its first admission
    placeholders = 0  # tokens in flight, when the job is handed to the plain loops
    priority = 0
    preemptions = 0
    preempted_tokens = 0
    resumed_cached_tokens = 0

    # The replay's own:
    entered_ns = 0  # into the queue, for the first time
    entered_step = 0  # the first that might let it in
    mark: Any = None  # sums of waits from when it came, if a batch ended since
    waited_ns: bytes | None = None  # by what held it up, packed
    first_scheduled_ns = -1
    first_token_ns = -1
    last_token_ns = -1
    itl_max_ns = -1

    def __init__(self, row: int, prompt_tokens: int, will_emit: int, arrival_ns: int) -> None:
        self.row = row
        self.arrival_ns = arrival_ns
        self.num_tokens = prompt_tokens  # known ones; of a decoding job, when it began
        self.will_emit = will_emit  # tokens, until it ends


Chunk: TypeAlias = tuple[Job, int, int]
"""A prompt in progress, the tokens that it is granted, and the blocks that these need."""


class JobHeap:
    """Waiting jobs by priority, then arrival; what `deque` does for them under fcfs."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Job]] = []

    def append(self, job: Job) -> None:
        """Put a job in its place."""
        heapq.heappush(self._heap, (job.priority, job.arrival_ns, job.row, job))

    def popleft(self) -> Job:
        """Take the first one out."""
        return heapq.heappop(self._heap)[3]

    def __getitem__(self, index: int) -> Job:
        """Return the first one, at index 0; there is no order among the others."""
        return self._heap[index][3]

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Job]:
        return iter([job for *_, job in self._heap])


class Express:
    """Text requests, first come first served, and the pool in counts."""

    def __init__(self, config: SchedulerConfig, names: PrefixNames) -> None:
        self.config = config
        self._names = names
        self.pool = BlockPool(config.num_gpu_blocks, numbered=False)
        self.num_freed = 0  # blocks, by all that have ended so far
        self.waiting: deque[Job] | JobHeap = deque() if config.policy == "fcfs" else JobHeap()
        self.running: dict[Job, None] = {}  # in the order of their admission
        self.prompts: list[Job] = []  # in progress, in running order
        self.index = 0  # of the next pass
        self.num_decodes = 0
        self.context_tokens = 0  # of the decodes, computed before the next pass
        self.num_admissions = 0
        self._size = config.block_size
        self._budget = config.tokens_of_pass
        self._seats = config.seats
        self._caches = config.enable_prefix_caching
        self._watermark = config.watermark_blocks
        self._max_model_len = config.max_model_len
        self._opens = array("q", bytes(16 * self._size))  # twice over: a stretch of it is a slice
        self.opens = memoryview(self._opens).cast("B")[: 8 * self._size]  # as it is at any time
        self._ends: dict[int, list[Job]] = {}
        self._end_order: list[int] = []  # a heap of the calendar's passes
        self.blocked: Verdict | None = None  # ends admission while `_floor` blocks are free
        self._floor = 0
        # Of the pass scheduled last:
        self.prefills: list[tuple[Job, int, int]] = []  # job, computed before, new tokens
        self.num_chunks = 0  # of those, by the running loop: prompts in progress
        self._has_threshold = config.threshold > 0
        self._threshold = 0  # most tokens of one prompt, in the next pass
        self.victims: list[tuple[Job, int]] = []  # with their computed tokens
        self.blocks_freed = 0  # by the victims
        self.tokens_left = 0  # of the budget
        self.running_stop = LIST_DONE
        self.admission_stop = QUEUES_EMPTY

    def requests_came(self) -> None:
        """Look at the queue again under priority, where a new one may stand at its head."""
        if self.config.policy == "priority":
            self.blocked, self._floor = None, 0

    def longest_run(self) -> int:
        """Passes in which nothing but decoding happens; 0 if the next is not one of them."""
        if self.prompts or not self.num_decodes:
            return 0
        if self.blocked is None and self.waiting:
            return 0
        while not self._ends[self._end_order[0]]:  # evicted, all of them
            del self._ends[heapq.heappop(self._end_order)]
        limit = self._end_order[0] - self.index + 1
        room = self.pool.num_free - self._floor
        if self.num_decodes * (limit // self._size + 1) <= room:
            return limit
        opens, size, index = self._opens, self._size, self.index
        for num_passes in range(limit):
            room -= opens[(index + num_passes) % size]
            if room < 0:
                return num_passes
        return limit

    def run(self, num_passes: int) -> list[Job]:
        """Go through passes in which everybody running decodes; who ended in the last of them."""
        size, opens = self._size, self._opens
        cycles, rest = divmod(num_passes, size)
        phase = self.index % size
        opened = cycles * self.num_decodes + sum(opens[phase : phase + rest])
        self.pool.take(opened)
        if self._caches:  # a block is full a pass before the next one is opened
            self.pool.num_cached += opened - opens[phase] + opens[phase + rest]
        self.index += num_passes
        self.context_tokens += num_passes * self.num_decodes
        if self._end_order[0] >= self.index:
            return []
        ended = self._end()
        self._free_ended(ended)
        return ended

    def schedule_pass(self) -> bool:
        """Schedule one pass; False, and nothing done, if it is one for the reference loops.

        Those are a pass that schedules nothing, one whose only request preempts itself, and one
        that is short of blocks under priority.
        """
        self._begin_pass()
        opening = self._opens[self.index % self._size]
        chunks, need = self._chunks(self._budget - self.num_decodes)
        if chunks is None:
            return False
        if opening + need > self.pool.num_free:
            return self._schedule_short(chunks)
        self.pool.take(opening)
        if self._caches:
            self.pool.num_cached += self._opens[self.index % self._size + 1]
        self._go_on(chunks)
        self._admit()
        return self.num_decodes > 0 or bool(self.prefills)

    def _begin_pass(self) -> None:
        self.blocked, self._floor = None, 0
        self.prefills, self.victims = [], []
        self.num_chunks = self.blocks_freed = 0
        self.running_stop = LIST_DONE
        if self._has_threshold:
            num_requests = len(self.running) + len(self.waiting)
            self._threshold = threshold_of_pass(self.config, num_requests)

    def _chunks(self, budget: int) -> tuple[list[Chunk] | None, int]:
        """Tokens and new blocks for the prompts in progress, and the sum of these blocks.

        None for a pass where some request is reached by no budget. No prompt asks for more than it
        got in the pass before, but for one that the budget cut, which is the last one running.
        """
        chunks, sum_needed = [], 0
        for job in self.prompts:
            wanted = min(job.num_tokens - job.computed, self._max_model_len - job.computed - 1)
            if 0 < self._threshold < wanted:
                wanted = self._threshold
            granted = min(wanted, budget)
            if granted <= 0 or (granted < wanted and job is not self._last_running()):
                return None, 0
            budget -= granted
            need = self._blocks_for(job.computed + granted) - job.num_blocks
            sum_needed += need
            chunks.append((job, granted, need))
        self.tokens_left = budget
        return chunks, sum_needed

    def _last_running(self) -> Job:
        return next(reversed(self.running))

    def _go_on(self, chunks: list[Chunk]) -> None:
        """Go on with prompts in progress."""
        for job, granted, need in chunks:
            self._go_on_with(job, granted, need)

    def _go_on_with(self, job: Job, granted: int, need: int) -> None:
        end = job.computed + granted
        self.pool.take(need)
        if job.table is not None:
            job.table.ids += [0] * need
        job.num_blocks += need
        self._hash(job, end)
        job.is_prefill_chunk = end < job.num_tokens
        self.prefills.append((job, job.computed, granted))
        self.num_chunks += 1

    def fold_pass(self) -> tuple[list[Job], list[Job]]:
        """Fold that pass in: who ended, in their order, and whose prompt is computed."""
        self.index += 1
        self.context_tokens += self.num_decodes
        order = self._end_order
        ended = self._end() if order and order[0] < self.index else []
        done = []
        self.prompts = []
        for job, computed, num_new_tokens in self.prefills:
            job.computed = computed + num_new_tokens
            if job.is_prefill_chunk:
                self.prompts.append(job)
                continue
            job.num_tokens += 1
            job.emitted += 1
            done.append(job)
            if job.emitted < job.will_emit:
                self._join(job)
            else:
                ended.append(job)
                del self.running[job]
        self._free_ended(ended)
        return ended, done

    def part(self, job: Job) -> int:
        """Take a decoding job off the ledger, its counts brought up to date; passes it decoded."""
        size, opens, num_passes = self._size, self._opens, self.index - job.began
        place = (job.began - job.computed) % size
        opens[place] -= 1
        opens[place + size] -= 1
        job.num_tokens += num_passes
        job.emitted += num_passes
        computed = job.computed = job.computed + num_passes
        self.num_decodes -= 1
        self.context_tokens -= computed
        job.num_blocks = -(-computed // size)
        if self._caches:
            job.num_hashed = computed // size
        return num_passes

    def _join(self, job: Job) -> None:
        """Let a job decode from the next pass on."""
        size, opens, computed = self._size, self._opens, job.computed
        began = job.began = self.index
        place = (began - computed) % size
        opens[place] += 1
        opens[place + size] += 1
        self.num_decodes += 1
        self.context_tokens += computed
        end = job.end = began + job.will_emit - job.emitted - 1
        ending = self._ends.get(end)
        if ending is None:
            self._ends[end] = [job]
            heapq.heappush(self._end_order, end)
        else:
            ending.append(job)

    def _end(self) -> list[Job]:
        """Take out the jobs whose last token came in the pass just done."""
        ended = self._ends.pop(heapq.heappop(self._end_order))
        for job in ended:
            self.part(job)
            del self.running[job]
        return ended

    def _free_ended(self, ended: list[Job]) -> None:
        """Free the blocks of the jobs that ended with a pass, in running order."""
        if len(ended) > 1:
            ended.sort(key=place_of)
        for job in ended:
            self._give_back(job)

    def _give_back(self, job: Job) -> None:
        """Free a finished job's blocks; a waiting one may be admitted now.

        No request looks for what it generated, so that those blocks are not entered by name.
        """
        table, num_blocks = job.table, job.num_blocks
        if table is None:
            self.pool.give_back(num_blocks - job.num_hashed, job.num_hashed)
            self.num_freed += num_blocks
        else:
            table.ids += [0] * (num_blocks - len(table.ids))
            self.num_freed += self.pool.free(table, job.num_hashed - table.num_named)
            job.table = None
        self.blocked, self._floor = None, 0

    def _hash(self, job: Job, num_tokens: int) -> None:
        """Hash the blocks that a prompt fills up to so many tokens."""
        if not self._caches:
            return
        first, full = job.num_hashed, num_tokens // self._size
        job.num_hashed = full
        if job.table is None or job.identity is None:
            self.pool.num_cached += full - first
        elif full > first:
            self.pool.cache(job.table, job.identity.stretches(first, full))

    def named_table(self, job: Job) -> BlockTable:
        """A job's blocks as they are, each full one entered by its name."""
        if job.identity is None:
            job.identity = self._names.own()
        table = job.table
        if table is None:
            table = job.table = BlockTable([])
        table.ids += [0] * (job.num_blocks - len(table.ids))
        first, full = table.num_named, job.num_hashed
        if full > first:
            self.pool.num_cached -= full - first  # they are counted already
            self.pool.cache(table, job.identity.stretches(first, full))
        return table

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-min(num_tokens, self._max_model_len) // self._size)

    def _admit(self) -> None:
        """Let requests in from the head of the queue; notes why that ended, and for how long."""
        waiting, running, pool, size = self.waiting, self.running, self.pool, self._size
        while waiting:
            left = self.tokens_left
            if left <= 0:
                self._end_admission(Verdict.BUDGET_SPENT)
                return
            if len(running) >= self._seats:
                self.admission_stop = self.blocked = Verdict.SEATS_FULL
                return
            job = waiting[0]
            hit = NO_HIT if job.identity is None else self._hit(job, job.num_tokens)
            granted = wanted = self._wanted(job.num_tokens - len(hit) * size)
            if granted > left:
                if not self.config.chunked_prefill:
                    self._end_admission(Verdict.PROMPT_OVER_BUDGET)
                    return
                granted = left
            whole = -(-job.num_tokens // size)
            if whole + self._watermark > pool.num_free:  # else no term is short
                shortage = self._shortage(job.num_tokens, hit, granted)
                if shortage is not None:
                    self.admission_stop = shortage[0]
                    self._note_shortage(hit, *shortage, is_cut=wanted > left)
                    return
            self._seat(job, hit, granted)
        self.admission_stop = QUEUES_EMPTY

    def _end_admission(self, stop: Verdict) -> None:
        """Note what the budget ended; the next pass has more, unless this one admitted nobody."""
        self.admission_stop = stop
        if not self.prefills:
            self.blocked = stop

    def _hit(self, job: Job, num_tokens: int) -> Hit:
        """Cached blocks that a job of so many tokens begins with."""
        if job.identity is None or not self._caches:
            return NO_HIT
        return self.pool.cached_prefix(job.identity.stretches(0, (num_tokens - 1) // self._size))

    def _shortage(self, num_tokens: int, hit: Hit, granted: int) -> tuple[Verdict, int] | None:
        """Name the term that leaves an admission short, and above how many free blocks it does."""
        found, free_hits = len(hit), self.pool.num_free_among(hit)
        need = self._blocks_for(found * self._size + granted) - found
        whole = self._blocks_for(num_tokens) - found
        verdict = self._short_term(need, whole, self.pool.num_free - free_hits)
        match verdict:
            case None:
                return None
            case Verdict.KV_BLOCKS_SHORT:
                return verdict, 0
            case Verdict.KV_BLOCKS_SHORT_FULL_SEQUENCE:
                return verdict, need + free_hits
        most = max(need, whole) if self.config.scheduler_reserve_full_isl else need
        return verdict, most + free_hits

    def _short_term(self, need: int, whole: int, free: int) -> Verdict | None:
        headroom = self._watermark if self.running else 0
        return which_term_is_short(
            need, whole, free, headroom, whole_must_fit=self.config.scheduler_reserve_full_isl
        )

    def _wanted(self, num_tokens: int) -> int:
        """Tokens of a prompt that the long-prefill threshold leaves of so many."""
        return self._threshold if 0 < self._threshold < num_tokens else num_tokens

    def _note_shortage(self, hit: Hit, stop: Verdict, floor: int, *, is_cut: bool) -> None:
        """Remember a shortage, for as long as the head's hit stays and free blocks suffice for it.

        Not if the next pass offers the head more tokens than one that admitted others.
        """
        if is_cut and self.prefills:
            return
        if hit:
            floor = max(floor, self.pool.num_free - self.pool.num_before(hit))
        self.blocked, self._floor = stop, floor

    def _seat(self, job: Job, hit: Hit, granted: int) -> None:
        pool, found = self.pool, len(hit)
        computed = found * self._size
        end = computed + granted
        job.num_blocks = -(-end // self._size)
        job.num_hashed = found
        num_new_blocks = job.num_blocks - found
        if job.identity is not None:
            table = job.table = BlockTable([])
            if hit:
                pool.borrow(table, hit)
            table.ids += [0] * num_new_blocks
        pool.take(num_new_blocks)
        self._hash(job, end)
        job.is_prefill_chunk = end < job.num_tokens
        self.waiting.popleft()
        self.running[job] = None
        job.place = self.num_admissions
        self.num_admissions += 1
        self.tokens_left -= granted
        self.prefills.append((job, computed, granted))
        if job.preemptions:
            job.resumed_cached_tokens += computed
        else:
            job.cached_tokens = computed

    def _schedule_short(self, chunks: list[Chunk]) -> bool:
        """Schedule a pass in which blocks do not suffice for all that run."""
        if len(self.running) == 1 or self.config.policy == "priority":
            return False
        self._walk(chunks)
        self.tokens_left = self._budget - self.num_decodes - self._prompt_tokens()
        return True

    def _walk(self, chunks: list[Chunk]) -> None:
        """Give all that run their blocks in order, preempting the last ones until it fits."""
        prompts = {job: (granted, need) for job, granted, need in chunks}
        self.admission_stop = Verdict.CLOSED_BY_PREEMPTION
        for job in list(self.running):
            if job not in self.running:
                return  # it was preempted, and all after it
            if job in prompts:
                granted, need = prompts[job]
                if not self._make_room(job, need):
                    return
                self._go_on_with(job, granted, need)
                continue
            opens, fills = self._opens_and_fills(job)
            if opens:
                if not self._make_room(job, 1):
                    return
                self.pool.take(1)
            if self._caches and fills:
                self.pool.num_cached += 1

    def _make_room(self, job: Job, need: int) -> bool:
        """Preempt the last ones running until so many blocks are free; False if that is the job."""
        while self.pool.num_free < need:
            victim = self._last_running()
            self._evict(victim)
            if victim is job:
                self.running_stop = Verdict.PREEMPTED_SELF
                return False
        return True

    def _prompt_tokens(self) -> int:
        return sum([num_new_tokens for _, _, num_new_tokens in self.prefills])

    def _opens_and_fills(self, job: Job) -> tuple[bool, bool]:
        """Whether a job opens a block in the next pass, and whether one becomes full in it."""
        computed = job.computed + self.index - job.began
        return computed % self._size == 0, (computed + 1) % self._size == 0

    def _take_off(self, job: Job) -> None:
        """Take a job that is evicted off the ledger."""
        self._ends[job.end].remove(job)
        self.part(job)

    def _evict(self, job: Job) -> None:
        """Send a running job to the head of the queue, with nothing computed."""
        del self.running[job]
        if job in self.prompts:
            self.prompts.remove(job)
        else:
            self._take_off(job)
        self.victims.append((job, job.computed))
        job.preemptions += 1
        job.preempted_tokens += job.computed
        job.computed = 0
        job.is_prefill_chunk = False
        self.blocks_freed += self.pool.free(self.named_table(job))
        job.table = None
        job.num_blocks = job.num_hashed = 0
        waiting = self.waiting
        assert isinstance(waiting, deque)  # nothing is preempted under priority
        waiting.appendleft(job)

    def admissions_that_fit(self) -> int:
        """Count the admissions that the preemption of the pass just scheduled has cancelled.

        Its victims stand in their places, where they may end the loop; they are not counted.
        """
        victims = {job for job, _ in self.victims}
        pool, size = WhatIfPool(self.pool), self._size
        budget, seats, fit = self.tokens_left, self._seats - len(self.running), 0
        for job in self.waiting:
            if budget <= 0 or seats <= 0:
                break
            num_tokens, hit = self._known_tokens(job), NO_HIT
            if num_tokens is None:
                continue
            if job.identity is not None and self._caches:
                hit = pool.cached_prefix(job.identity.stretches(0, (num_tokens - 1) // size))
            found, free = len(hit), pool.num_free - pool.num_free_among(hit)
            wanted = self._wanted(num_tokens - found * size)
            if wanted > budget and not self.config.chunked_prefill:
                break
            granted = min(wanted, budget)
            need = self._blocks_for(found * size + granted) - found
            if self._short_term(need, self._blocks_for(num_tokens) - found, free):
                break
            table = BlockTable([])
            pool.borrow(table, hit)
            pool.take(need)
            if job.identity is not None and self._caches:
                pool.cache(table, job.identity.stretches(found, (found * size + granted) // size))
            budget -= granted
            seats -= 1
            fit += job not in victims
        return fit

    def _known_tokens(self, job: Job) -> int | None:
        """Tokens of a waiting job in the pass just scheduled; None if it waits for its output."""
        return job.num_tokens


def place_of(job: Job) -> int:
    """Sort jobs as they stand in the running list."""
    return job.place


def covers(config: SchedulerConfig) -> bool:
    """Whether all that a scheduler is set up for is covered here."""
    return (
        config.passes_in_flight == 1 + config.runs_ahead
        and config.seats <= config.tokens_of_pass
        and not config.num_speculative_tokens
        and config.max_loras is None
        and config.kv_role is None
        and config.prefill_interval == 1
        and not config.long_prefill_token_threshold_adaptive
        and not config.is_encoder_decoder
    )
