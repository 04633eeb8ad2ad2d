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
drafts, a pause, a grammar that may reject a token, a policy of one's own - takes the plain way, and
both give equal passes. With a pass in flight, see steady_ahead.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.sched.blocked_head import BlockedHead
from schedbench.sched.decode_ledger import DecodeLedger, in_running_order
from schedbench.sched.fold import fold, stop_status
from schedbench.sched.kv_cache.counting import CountingKVCache
from schedbench.sched.output import EngineCoreOutputs, ModelRunnerOutput
from schedbench.sched.request import FINISH_REASON
from schedbench.sched.scheduler import PauseState
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Decoding requests put aside, one pass at a time in flight."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._possible = is_possible(scheduler)
        self._budget = scheduler.config.tokens_of_pass
        self._caches = scheduler.config.enable_prefix_caching
        self._ledger = DecodeLedger(scheduler.config.block_size)
        self._head = BlockedHead()
        self._is_in = False
        self._has_chunk = False
        self._wait = 0

    @property
    def num_decodes(self) -> int:
        return len(self._ledger)

    @property
    def context_tokens(self) -> int:
        """Computed before the next pass, summed over the decodes."""
        return self._ledger.context_tokens

    def enter(self, in_step: Callable[[list[Request]], bool]) -> bool:
        """Put the decodes aside, if the next pass can go the short way.

        `in_step`: whether requests all got a token in the pass before. From here on each gets one
        in every pass, so that a pass is the time between two tokens.
        """
        if self._is_in:
            return not self._has_chunk and 0 < len(self._ledger) <= self._budget
        if not self._possible or self._scheduler.pause_state is not PauseState.UNPAUSED:
            return False
        if self._wait:
            self._wait -= 1
            return False
        running = self._scheduler.running
        if not 0 < len(running) <= self._budget:
            return False
        if any(r.num_tokens - r.num_computed_tokens != 1 or r.is_prefill_chunk for r in running):
            return False
        if any(is_looked_at(self._scheduler, request) for request in running):
            return False
        if not in_step(running):
            return False
        self._ledger = DecodeLedger(self._scheduler.config.block_size)
        self._head.clear()
        self._is_in, self._has_chunk = True, False
        for request in running:
            self._ledger.join(request, tokens_left(self._scheduler, request))
        return True

    def leave(self) -> Ended:
        """Catch up with every request's counters; who decoded, in how many passes."""
        if not self._is_in:
            return []
        self._is_in = False
        return [(request, self._catch_up(request)) for request in list(self._ledger.joined)]

    def wait_a_little(self) -> None:
        """Take the plain way for some passes."""
        self._wait = PATIENCE

    def somebody_came(self) -> None:
        """Look at the queue again: under priority the newcomer may stand at its head."""
        if self._scheduler.config.policy == "priority":
            self._head.clear()

    def wants_admission(self) -> bool:
        """Whether somebody waits who may be let in, as far as is known."""
        return self._head.verdict is None and len(self._scheduler.queues) > 0

    def longest_run(self) -> int:
        """Passes until a request ends or blocks run short; 0 if they are short already."""
        end = self._ledger.next_end
        limit = 1 if end is None else end - self._ledger.index + 1
        room = self._scheduler.kv_cache.pool.num_free - self._head.floor
        return self._ledger.passes_with_room(limit, room)

    def run(self, num_passes: int) -> DecodeRun:
        """Advance by passes in which nobody is admitted; whoever ends, ends in the last."""
        scheduler, ledger = self._scheduler, self._ledger
        run = state_before(scheduler, ledger, self._head.verdict or Verdict.QUEUES_EMPTY)
        run.num_passes = num_passes
        self._take_blocks(num_passes)
        ledger.advance(num_passes)
        freed = scheduler.blocks_freed_finish
        run.ended = self._end([])
        run.num_freed = scheduler.blocks_freed_finish - freed
        return run

    def schedule_admissions(self) -> SchedulerOutput | None:
        """Schedule a pass of all decodes and whoever can be admitted beside them.

        None if blocks are too short for the decodes themselves.
        """
        scheduler, ledger = self._scheduler, self._ledger
        if ledger.opened(1) > scheduler.kv_cache.pool.num_free:
            return None
        self._take_blocks(1)
        this_pass = scheduler.start_pass(throttle_prefills=False)
        this_pass.put_aside(len(ledger), ledger.context_tokens)
        this_pass.admission_stop = scheduler.admit(this_pass)
        self._head.note(scheduler, this_pass)
        return scheduler.close_pass(this_pass)

    def fold_admissions(self, output: SchedulerOutput) -> tuple[EngineCoreOutputs, Ended]:
        """Fold a pass in that `schedule_admissions` made; outputs, and who ended of the decodes."""
        scheduler = self._scheduler
        self._ledger.advance(1)
        finished: list[tuple[Request, str]] = []
        gone = self._end(finished)
        admitted = [grant.request for grant in output.prefills]
        sampled = {r.request_id: 1 for r in admitted if not r.is_prefill_chunk}
        outputs = fold(scheduler, output, ModelRunnerOutput(sampled))
        if outputs.finished:  # of those just admitted
            self._head.clear()
        outputs.finished[:0] = finished
        for request in admitted:
            if request.is_prefill_chunk or is_looked_at(scheduler, request):
                self._has_chunk = True
            elif not request.is_finished:
                self._ledger.join(request, tokens_left(scheduler, request))
        return outputs, gone

    def _take_blocks(self, num_passes: int) -> None:
        """Open the blocks of the next passes, and hash those that become full in them."""
        pool = self._scheduler.kv_cache.pool
        pool.take(self._ledger.opened(num_passes))  # type: ignore[attr-defined]
        if self._caches:
            pool.num_cached += self._ledger.opened(num_passes, shift=1)

    def _end(self, finished: list[tuple[Request, str]]) -> Ended:
        """End the requests whose last token came in the pass just done, adding to `finished`."""
        end = self._ledger.next_end
        if end is None or end >= self._ledger.index:
            return []
        scheduler = self._scheduler
        ending = in_running_order(self._ledger.take_ending(), scheduler.running)
        drop(scheduler, ending)
        ended = []
        for request in ending:
            ended.append((request, self._catch_up(request)))
            finish(scheduler, request, finished)
        self._head.clear()
        return ended

    def _catch_up(self, request: Request) -> int:
        """Give a request the counters that the plain way would have given it."""
        computed, began = self._ledger.part(request)
        num_passes = self._ledger.index - began
        request.num_tokens += num_passes
        request.num_computed_tokens = computed + num_passes
        computed = request.num_computed_tokens
        hold_blocks(self._scheduler, request, computed, computed)
        return num_passes


def is_looked_at(scheduler: Scheduler, request: Request) -> bool:
    """Whether its fold does more than count: a grammar, min_tokens, encoder outputs to let go."""
    has_grammar = request.grammar is not None and request.grammar.tokens_left is not None
    return has_grammar or request.min_tokens > 0 or scheduler.encoder_cache.is_used_by(request)


def tokens_left(scheduler: Scheduler, request: Request, num_coming: int = 0) -> int:
    """Tokens until the request ends, when `num_coming` more than those known have come."""
    cap = request.max_tokens
    if request.eos_after is not None:
        cap = min(cap, request.eos_after)
    return (
        min(
            cap - request.num_output_tokens,
            scheduler.config.max_model_len - request.num_tokens,
        )
        - num_coming
    )


def state_before(scheduler: Scheduler, ledger: DecodeLedger, stop: Verdict) -> DecodeRun:
    """A run of no passes yet, from the state as it is."""
    pool, queues = scheduler.kv_cache.pool, scheduler.queues
    return DecodeRun(
        num_passes=0,
        num_decodes=len(ledger),
        context_tokens=ledger.context_tokens,
        opens=ledger.opens.copy(),
        phase=ledger.index % ledger.block_size,
        num_free=pool.num_free,
        num_bare=pool.num_bare,  # type: ignore[attr-defined]
        num_cached=pool.num_cached,
        stop=stop,
        num_running=len(scheduler.running),
        num_waiting=queues.num_waiting,
        num_skipped=queues.num_skipped_waiting,
        ended=[],
        num_freed=0,
    )


def hold_blocks(scheduler: Scheduler, request: Request, num_tokens: int, num_hashed: int) -> None:
    """Note the blocks that hold a request's tokens, and those that so many of them make hashed."""
    size = scheduler.config.block_size
    request.num_blocks = -(-num_tokens // size)
    if scheduler.config.enable_prefix_caching:
        request.num_cached_blocks = num_hashed // size


def drop(scheduler: Scheduler, requests: list[Request]) -> None:
    """Take requests off the running list."""
    if len(requests) == 1:
        scheduler.running.remove(requests[0])
    else:
        scheduler.remove_running(set(requests))


def finish(scheduler: Scheduler, request: Request, finished: list[tuple[Request, str]]) -> None:
    """End a request that has got its last token; it is off the running list."""
    status = stop_status(request, scheduler.config.max_model_len)
    assert status is not None
    request.status = status
    finished.append((request, FINISH_REASON[status]))
    scheduler.free_request(request)


def is_possible(scheduler: Scheduler) -> bool:
    """Whether the short way covers what a scheduler is set up for."""
    config = scheduler.config
    return (
        isinstance(scheduler.kv_cache, CountingKVCache)
        and not scheduler.hooks
        and scheduler.return_path is None
        and scheduler.transfers is None
        and config.passes_in_flight == 1 + config.runs_ahead
        and not config.num_speculative_tokens
        and config.max_loras is None
        and config.prefill_interval == 1
        and not config.long_prefill_token_threshold_adaptive
    )
