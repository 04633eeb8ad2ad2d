"""The short way through passes in which nothing but decoding happens.

While every running request decodes one token a pass and blocks suffice, nothing about a single
request has to be touched but the blocks it opens. For each decoding request it is enough to know
the pass in which it began to decode (decode_ledger.py); then

    who opens a block in pass p    is a bucket, p modulo the block size
    who ends in pass p             is in a calendar
    how much context is read       grows by one token a request and pass

so that a run of k such passes is a handful of additions where blocks are counted, and as many steps
as blocks are opened where they have numbers. The decoding requests' own counters stand
still meanwhile and are caught up with when one of them ends or when anything else wants to look
(`leave`). Blocks are those of decode_blocks.py.

A pass with prompts is made by the very loops, with the decodes' tokens taken off its budget
beforehand: the prompt in hand, if there is one, by the running loop's own function, then the
admission loop. The prompt in hand was cut by the budget, so that it is the last one running.

Whatever this room does not cover - several prompts in hand, a pool too short, drafts, a pause, a
grammar that may reject a token, a policy of one's own - takes the plain way, and both give equal
passes. With a pass in flight, see steady_ahead.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.sched.blocked_head import BlockedHead
from schedbench.sched.decode_blocks import blocks_of
from schedbench.sched.decode_ledger import DecodeLedger, in_running_order
from schedbench.sched.fold import fold, stop_status
from schedbench.sched.output import EngineCoreOutputs, ModelRunnerOutput
from schedbench.sched.request import FINISH_REASON
from schedbench.sched.running_loop import schedule_one
from schedbench.sched.scheduler import PauseState, Scheduler
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request

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
        self._ledger = DecodeLedger(scheduler.config.block_size)
        self._blocks = blocks_of(scheduler, self._ledger)
        self._head = BlockedHead()
        self._is_in = False
        self._chunk: Request | None = None  # the prompt in hand
        self._must_leave = False
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
        scheduler = self._scheduler
        if self._is_in:
            return not self._must_leave and 0 < len(self._ledger) <= self._budget
        if not self._possible or scheduler.pause_state is not PauseState.UNPAUSED:
            return False
        if self._wait:
            self._wait -= 1
            return False
        running = scheduler.running
        if not 0 < len(running) <= self._budget:
            return False
        chunk = running[-1] if is_chunk(running[-1]) else None
        decodes = running if chunk is None else running[:-1]
        if not decodes or any(is_chunk(request) for request in decodes):
            return False
        if any(is_looked_at(scheduler, request) for request in running):
            return False
        if (chunk is not None and not self._may_hold(chunk)) or not in_step(decodes):
            return False
        self._ledger = DecodeLedger(scheduler.config.block_size)
        self._blocks = blocks_of(scheduler, self._ledger)
        self._head.clear()
        self._is_in, self._must_leave, self._chunk = True, False, chunk
        for request in decodes:
            self._join(request)
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
        """Whether the next pass may have prompts in it, as far as is known."""
        if self._chunk is not None:
            return True
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
        self._blocks.take(num_passes)
        ledger.advance(num_passes)
        freed = scheduler.blocks_freed_finish
        run.ended = self._end([])
        run.num_freed = scheduler.blocks_freed_finish - freed
        return run

    def schedule_admissions(self) -> SchedulerOutput | None:
        """Schedule a pass of all decodes, the prompt in hand and whoever can be admitted.

        None if blocks are too short for those that run.
        """
        scheduler, ledger, chunk = self._scheduler, self._ledger, self._chunk
        room = scheduler.kv_cache.pool.num_free - ledger.opened(1)
        if room < 0 or (chunk is not None and not self._has_room(chunk, room)):
            return None
        self._blocks.take(1)
        this_pass = scheduler.start_pass(throttle_prefills=False)
        this_pass.put_aside(len(ledger), ledger.context_tokens)
        if chunk is not None:
            verdict, _ = schedule_one(scheduler, this_pass, chunk, len(scheduler.running) - 1)
            assert verdict is Verdict.CONTINUED
        this_pass.admission_stop = scheduler.admit(this_pass)
        self._head.note(scheduler, this_pass)
        return scheduler.close_pass(this_pass)

    def fold_admissions(self, output: SchedulerOutput) -> tuple[EngineCoreOutputs, Ended]:
        """Fold a pass in that `schedule_admissions` made; outputs, and who ended of the decodes."""
        scheduler = self._scheduler
        self._ledger.advance(1)
        finished: list[tuple[Request, str]] = []
        gone = self._end(finished)
        prompts = [grant.request for grant in output.prefills]
        sampled = {r.request_id: 1 for r in prompts if not r.is_prefill_chunk}
        outputs = fold(scheduler, output, ModelRunnerOutput(sampled))
        if outputs.finished:  # of those with prompts
            self._head.clear()
        outputs.finished[:0] = finished
        self._chunk = None
        for request in prompts:
            if request.is_finished:
                continue
            if is_looked_at(scheduler, request):
                self._must_leave = True
            elif not request.is_prefill_chunk:
                self._join(request)
            elif request is scheduler.running[-1] and self._may_hold(request):
                self._chunk = request
            else:
                self._must_leave = True
        return outputs, gone

    def _join(self, request: Request) -> None:
        """Put a request aside that decodes from the next pass on."""
        self._ledger.join(request, tokens_left(self._scheduler, request))
        self._blocks.join(request)

    def _may_hold(self, chunk: Request) -> bool:
        """Whether nothing but the budget cuts a prompt in hand, so that nobody stands behind it."""
        return not self._scheduler.config.threshold and not chunk.encoder_inputs

    def _has_room(self, chunk: Request, num_free: int) -> bool:
        """Whether the budget and the blocks that decodes leave suffice for the prompt in hand."""
        config, kv_cache = self._scheduler.config, self._scheduler.kv_cache
        computed = chunk.num_computed_tokens
        wanted = min(chunk.num_tokens - computed, config.max_model_len - 1 - computed)
        granted = min(wanted, self._budget - len(self._ledger))
        held = len(chunk.block_ids)
        return granted > 0 and kv_cache.blocks_for(computed + granted) - held <= num_free

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
        self._blocks.part(request, computed + num_passes)
        return num_passes


def is_chunk(request: Request) -> bool:
    """Whether a running request has more to compute than its newest token."""
    return request.is_prefill_chunk or request.num_tokens - request.num_computed_tokens != 1


def is_looked_at(scheduler: Scheduler, request: Request) -> bool:
    """Whether its fold does more than count: a grammar, min_tokens, a session, encoder outputs."""
    has_grammar = request.grammar is not None and request.grammar.tokens_left is not None
    waits = has_grammar or request.min_tokens > 0 or request.resumable
    return waits or scheduler.encoder_cache.is_used_by(request)


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
        num_bare=pool.num_bare,
        num_cached=pool.num_cached,
        stop=stop,
        num_running=len(scheduler.running),
        num_waiting=queues.num_waiting,
        num_skipped=queues.num_skipped_waiting,
        ended=[],
        num_freed=0,
    )


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
    """Whether the short way covers what a scheduler is set up for; not one of somebody's own."""
    config = scheduler.config
    return (
        type(scheduler) is Scheduler
        and not scheduler.hooks
        and scheduler.return_path is None
        and scheduler.transfers is None
        and config.passes_in_flight == 1 + config.runs_ahead
        and not config.num_speculative_tokens
        and config.max_loras is None
        and config.prefill_interval == 1
        and not config.long_prefill_token_threshold_adaptive
    )
