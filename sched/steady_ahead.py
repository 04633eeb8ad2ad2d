"""The short way with a pass in flight: pass x is scheduled before pass x - 1 is folded in.

Decodes are put aside as in steady.py; what differs is when things are seen:

    a block is opened, and hashed when full, by the schedule that has it in hand
    a request whose last token comes with pass e still holds its seat and blocks in pass e + 1:
        stepped over there if its cap is sure to be reached (max_tokens, max_model_len),
        scheduled in vain if the model ends it by itself
    a request admitted in pass y decodes from pass y + 1 on, before its first token has come

A request's own counters stand where they will be when the pass in flight at its joining is folded
in: the token that pass brings is known, nothing of it is a placeholder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.blocked_head import BlockedHead
from schedbench.sched.decode_blocks import hold_blocks
from schedbench.sched.decode_ledger import DecodeLedger, in_running_order
from schedbench.sched.fold import fold
from schedbench.sched.output import ModelRunnerOutput
from schedbench.sched.scheduler import PauseState
from schedbench.sched.steady import (
    PATIENCE,
    DecodeRun,
    Ended,
    drop,
    finish,
    is_looked_at,
    is_possible,
    state_before,
    tokens_left,
)
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


class SteadyAhead:
    """Decoding requests put aside, one pass always in flight."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        counts = not scheduler.kv_cache.pool.is_numbered
        self._possible = counts and is_possible(scheduler)
        self._budget = scheduler.config.tokens_of_pass
        self._caches = scheduler.config.enable_prefix_caching
        self._ledger = DecodeLedger(scheduler.config.block_size)
        self._head = BlockedHead()
        self._is_in = False
        self._wait = 0
        self._joining: list[Request] = []  # decode from the next pass on
        self._must_leave = False  # the pass in flight holds what is not covered here
        self._uniform: Verdict | None = None  # how admission ended, if all did just decode
        self._num_waiting = (0, 0)  # when the pass in flight was scheduled
        self.num_emitting = 0  # of the decodes in flight, those whose token will be taken

    @property
    def num_decodes(self) -> int:
        return len(self._ledger)

    @property
    def context_tokens(self) -> int:
        """Computed before the next pass, summed over the decodes."""
        return self._ledger.context_tokens

    def enter(self, *, one_in_flight: bool) -> bool:
        """Put the decodes aside, if the next pass can go the short way."""
        scheduler = self._scheduler
        if self._is_in:
            seats = len(self._ledger) + len(self._joining)
            return not self._must_leave and 0 < seats <= self._budget
        if not self._possible or not one_in_flight:
            return False
        if scheduler.pause_state is not PauseState.UNPAUSED:
            return False
        if self._wait:
            self._wait -= 1
            return False
        running = scheduler.running
        if not 0 < len(running) <= self._budget:
            return False
        if not all(self._decodes_on(request) for request in running):
            return False
        self._ledger = DecodeLedger(scheduler.config.block_size)
        self._head.clear()
        self._is_in, self._must_leave, self._uniform = True, False, None
        self._joining = running.copy()
        return True

    def leave(self) -> tuple[Ended, list[Request]]:
        """Catch up with every request; who decoded in how many passes, and who is in flight."""
        if not self._is_in:
            return [], []
        self._is_in = False
        in_flight = [r for r in self._scheduler.running if r in self._ledger.joined]
        return [(request, self._catch_up(request)) for request in in_flight], in_flight

    def wait_a_little(self) -> None:
        """Take the plain way for some passes."""
        self._wait = PATIENCE

    def somebody_came(self) -> None:
        """Look at the queue again: under priority the newcomer may stand at its head."""
        if self._scheduler.config.policy == "priority":
            self._head.clear()

    def schedule(self) -> SchedulerOutput | None:
        """Schedule the next pass; None if blocks are too short for its decodes."""
        scheduler, ledger = self._scheduler, self._ledger
        size = ledger.block_size
        starting = sum(request.num_computed_tokens % size == 0 for request in self._joining)
        over, in_vain = self._last_seen()
        computed_over = [ledger.computed_before(request, ledger.index) for request in over]
        opened = ledger.opened(1) - sum(computed % size == 0 for computed in computed_over)
        if opened + starting > scheduler.kv_cache.pool.num_free:
            return None
        for request in self._joining:
            scheduler.kv_cache.cache_blocks(request, request.num_computed_tokens)
            ledger.join(request, tokens_left(scheduler, request, num_coming=1))
        self._joining = []
        self._take_blocks(opened + starting, opened)
        num_decodes = len(ledger) - len(over)
        this_pass = scheduler.start_pass(throttle_prefills=False)
        this_pass.put_aside(num_decodes, ledger.context_tokens - sum(computed_over))
        this_pass.admission_stop = self._admit(this_pass)
        self.num_emitting = num_decodes - len(in_vain)
        ledger.advance(1)
        output = scheduler.close_pass(this_pass)
        self._note_admitted(output)
        calm = not (over or in_vain or output.prefills)
        self._uniform = this_pass.admission_stop if calm else None
        self._num_waiting = self._queue_lengths()
        return output

    def fold(
        self, output: SchedulerOutput, sampled: dict[str, int]
    ) -> tuple[EngineCoreOutputs, Ended]:
        """Fold in the pass before the one just scheduled; outputs, and who ended of the decodes."""
        scheduler, ledger = self._scheduler, self._ledger
        finished: list[tuple[Request, str]] = []
        gone: Ended = []
        last = ledger.index - 2
        if ledger.next_end == last:
            over, _ = self._split(ledger.ending(), last + 1)
            ending = in_running_order(ledger.take_ending(), scheduler.running)
            drop(scheduler, ending)
            stepped_over = set(over)
            for request in ending:
                gone.append((request, self._end(request, last, request in stepped_over)))
                finish(scheduler, request, finished)
            self._head.clear()
        outputs = fold(scheduler, output, ModelRunnerOutput(sampled))
        outputs.finished[:0] = finished
        return outputs, gone

    def longest_run(self) -> int:
        """Passes that can follow the one in flight and are like it; 0 if the next is not."""
        ledger = self._ledger
        stop = self._head.verdict
        wants_admission = stop is None and len(self._scheduler.queues) > 0
        if self._joining or wants_admission or self._uniform is not (stop or Verdict.QUEUES_EMPTY):
            return 0
        end = ledger.next_end
        limit = 0 if end is None else end - ledger.index + 1
        if limit <= 0 or len(self._scheduler.running) != len(ledger):
            return 0
        if self._num_waiting != self._queue_lengths():  # somebody came to a queue that stands still
            return 0
        room = self._scheduler.kv_cache.pool.num_free - self._head.floor
        return ledger.passes_with_room(limit, room)

    def run(self, num_passes: int) -> DecodeRun:
        """Schedule so many passes, and fold as many in: from the one in flight on."""
        run = state_before(self._scheduler, self._ledger, self._uniform or Verdict.QUEUES_EMPTY)
        run.num_passes = num_passes
        opened = self._ledger.opened(num_passes)
        self._take_blocks(opened, opened)
        self._ledger.advance(num_passes)
        return run

    def _queue_lengths(self) -> tuple[int, int]:
        queues = self._scheduler.queues
        return queues.num_waiting, queues.num_skipped_waiting

    def _decodes_on(self, request: Request) -> bool:
        """Whether a request has one token in flight, and will not end with it."""
        return (
            request.num_output_placeholders == 1
            and request.num_computed_tokens == request.num_tokens
            and not request.is_prefill_chunk
            and not is_looked_at(self._scheduler, request)
            and tokens_left(self._scheduler, request, num_coming=1) > 0
        )

    def _last_seen(self) -> tuple[list[Request], list[Request]]:
        """Of those whose last token is in flight: who is stepped over, who is scheduled in vain."""
        ledger = self._ledger
        if ledger.next_end != ledger.index - 1:
            return [], []
        return self._split(ledger.ending(), ledger.index)

    def _split(self, ending: list[Request], index: int) -> tuple[list[Request], list[Request]]:
        longest = self._scheduler.config.max_model_len
        in_vain = [
            request
            for request in ending
            if request.eos_after is not None
            and request.eos_after < request.max_tokens
            and self._ledger.computed_before(request, index) < longest - 1
            and self._ends_itself(request, index)
        ]
        return [request for request in ending if request not in in_vain], in_vain

    def _ends_itself(self, request: Request, index: int) -> bool:
        """Whether the token in flight is where the model ends, not a cap that comes first."""
        known = self._ledger.computed_before(request, index) + 1
        return known - request.output_start == request.eos_after

    def _admit(self, this_pass: SchedulePass) -> Verdict:
        if self._scheduler.kv_cache.pool.num_free < self._head.floor or (
            self._head.verdict is Verdict.BUDGET_SPENT and this_pass.token_budget
        ):
            self._head.clear()
        if not len(self._scheduler.queues):  # a fold may have ended the last one there
            self._head.clear()
            return Verdict.QUEUES_EMPTY
        if self._head.verdict is not None:
            return self._head.verdict
        stop = this_pass.admission_stop = self._scheduler.admit(this_pass)
        self._head.note(self._scheduler, this_pass)
        return stop

    def _note_admitted(self, output: SchedulerOutput) -> None:
        for grant in output.prefills:
            request = grant.request
            is_last = tokens_left(self._scheduler, request, 1) <= 0
            looked_at = is_looked_at(self._scheduler, request)
            if request.is_prefill_chunk or looked_at or is_last:
                self._must_leave = True
            else:
                self._joining.append(request)

    def _take_blocks(self, opened: int, full: int) -> None:
        pool = self._scheduler.kv_cache.pool
        pool.take(opened)
        if self._caches:
            pool.num_cached += full

    def _end(self, request: Request, last: int, stepped_over: bool) -> int:
        """Give a request the counters it ends with; the passes whose tokens it took."""
        computed, began = self._ledger.part(request)
        num_passes = last - began + 1
        request.num_tokens += num_passes
        held = computed + num_passes  # all but the last token, which nobody computes
        request.num_computed_tokens = held if stepped_over else held + 1
        hold_blocks(self._scheduler, request, request.num_computed_tokens, held)
        if self._caches and stepped_over and held % self._ledger.block_size == 0:
            self._scheduler.kv_cache.pool.num_cached += 1  # full, and no schedule saw it
        return num_passes

    def _catch_up(self, request: Request) -> int:
        """Give a request the counters of the plain way, with a pass in flight."""
        computed, began = self._ledger.part(request)
        num_passes = self._ledger.index - 1 - began
        request.num_tokens += num_passes
        request.num_computed_tokens = computed + num_passes + 1
        request.num_output_placeholders = 1
        hashed = computed + num_passes
        hold_blocks(self._scheduler, request, request.num_computed_tokens, hashed)
        return num_passes
