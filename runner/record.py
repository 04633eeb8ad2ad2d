"""Turns what the scheduler did into rows: one a pass, one a request.

Everything in a row follows from trace, flags and reported pass times. Real time stands apart, in
the timings.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from schedbench.runner.waits import WaitClock
from schedbench.sched.request import RequestStatus
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.runner.api import PassResult
    from schedbench.runner.requests import Row
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput, Victim
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

ADMITTED, RESUMED, CHUNK, VICTIM = range(1, 5)


class RowSink(Protocol):
    """Takes rows as tuples, in the order of the columns."""

    def append(self, row: tuple[object, ...]) -> None: ...


class DecisionDigest:
    """64 bits chained over the changes of each pass; a pass without change leaves it as it is.

    A change is an admission, a prefill chunk, a victim, or another verdict at the end of a loop.
    Decode grants follow from these.
    """

    def __init__(self) -> None:
        self.value = 0
        self._stops = ""

    def update(self, output: SchedulerOutput) -> int:
        stops = f"{output.running_stop.label} {output.admission_stop.label}"
        if stops == self._stops and not output.prefills and not output.victims:
            return self.value
        changes = array("Q", [self.value])
        resumed = set(output.scheduled_resumed_reqs)
        first_admission = len(output.prefills) - len(output.scheduled_new_reqs) - len(resumed)
        for place, (request, computed, tokens) in enumerate(output.prefills):
            kind = CHUNK if place < first_admission else RESUMED if request in resumed else ADMITTED
            changes.extend((kind, request.tag.row, tokens, computed))
        for victim in output.victims:
            changes.extend((VICTIM, victim.request.tag.row))
        payload = changes.tobytes() + (stops.encode() if stops != self._stops else b"")
        self._stops = stops
        self.value = int.from_bytes(hashlib.blake2b(payload, digest_size=8).digest(), "little")
        return self.value


@dataclass(slots=True)
class FirstHalf:
    """What `schedule()` settled of a pass's row, kept until the pass is folded in."""

    start_ns: int
    decided: tuple[int, ...]
    queues: tuple[int, ...]
    evictions: tuple[object, ...]
    prefix: tuple[int, int]
    freed_preempt: int
    decisions: int


class Recorder:
    """Collects a run's rows. All times are ns of the simulated clock.

    `warmup_ns`: intervals between tokens that end before it are left out of `itl`.
    """

    def __init__(
        self, scheduler: Scheduler, passes: RowSink, requests: RowSink, warmup_ns: int = 0
    ) -> None:
        self._scheduler = scheduler
        self._passes = passes
        self._requests = requests
        self._warmup_ns = warmup_ns
        self._digest = DecisionDigest()
        self._waits = WaitClock()
        self._freed_preempt = 0
        self._freed_finish = 0
        self._aborted = 0
        self._last_end_ns = 0
        self.itl: Counter[int] = Counter()  # interval in ns -> how often
        self.num_passes = 0

    def arrived(self, row: Row, now_ns: int) -> None:
        self._waits.enters(row, now_ns - row.arrival_ns)

    def time_is(self, now_ns: int) -> None:
        """Move the clock of the waits; before anybody enters or leaves the queues."""
        self._waits.advance(now_ns)

    def paused(self, verdict: Verdict) -> None:
        """Note why everyone waits from here on, if no pass is made that says so."""
        self._waits.schedule_ended(verdict, [])

    def aborted(self, requests: Iterable[Request], now_ns: int) -> None:
        for request in requests:
            self._aborted += 1
            self._end(request, now_ns, "abort")

    def closed(self, session: Request, now_ns: int) -> None:
        """Write the row of a session whose input ended while it waited for more."""
        self._end(session, now_ns, "stop")

    def evicted(self, victims: Iterable[Victim]) -> None:
        """Note running requests that were sent back to the queue."""
        for victim in victims:
            row = victim.request.tag
            row.preemptions += 1
            row.preempted_tokens += victim.num_computed_tokens
            self._waits.enters(row)

    def scheduled(self, output: SchedulerOutput, now_ns: int) -> FirstHalf:
        """Note a pass as it was decided; its row is written when it is folded in."""
        for request in output.scheduled_new_reqs:
            row = request.tag
            self._waits.leaves(row)
            if row.first_scheduled_ns is None:
                row.first_scheduled_ns = now_ns
                row.cached_tokens = output.lookups.get(request.request_id, 0)
        for request in output.scheduled_resumed_reqs:
            self._waits.leaves(request.tag)
            request.tag.resumed_cached_tokens += output.lookups.get(request.request_id, 0)
        self.evicted(output.victims)
        self._waits.schedule_ended(output.admission_stop, output.set_aside)
        freed, self._freed_preempt = self._freed_preempt, self._scheduler.blocks_freed_preempt
        return self._first_half(output, now_ns, self._freed_preempt - freed)

    def folded(
        self, first_half: FirstHalf, result: PassResult, outputs: EngineCoreOutputs, end_ns: int
    ) -> None:
        """Write the row of a pass that was executed and folded in at `end_ns`."""
        self._emissions(outputs, end_ns)
        if outputs.finished or outputs.segments_done:
            self._waits.advance(end_ns)
        for request, reason in outputs.finished:
            self._end(request, end_ns, reason)
        for request in outputs.segments_done:
            self._waits.enters(request.tag)
            if request.status is RequestStatus.WAITING_FOR_STREAMING_REQ:
                self._waits.sets_aside(request, Verdict.AWAITING_INPUT)
        pool = self._scheduler.kv_cache.pool
        freed, self._freed_finish = self._freed_finish, self._scheduler.blocks_freed_finish
        stopped_waiting = {request for request in outputs.stopped_waiting if request.is_finished}
        self._passes.append(
            (
                self.num_passes,
                first_half.start_ns,
                result.duration_ns,
                *first_half.decided,
                len(outputs.emitted),
                *first_half.queues,
                len(outputs.finished),
                len(stopped_waiting),
                self._aborted,
                *first_half.evictions,
                pool.num_gpu_blocks - 1 - pool.num_free,
                pool.num_free,
                pool.num_cached,
                first_half.freed_preempt,
                self._freed_finish - freed,
                *first_half.prefix,
                first_half.decisions,
            )
        )
        self.num_passes += 1
        self._aborted = 0
        self._last_end_ns = end_ns

    def unfinished(self, requests: Iterable[Request]) -> None:
        """Write the rows of requests that are still alive when the run ends."""
        alive = [request for request in requests if not request.is_finished]
        for request in sorted(alive, key=lambda each: each.tag.row):
            self._waits.leaves(request.tag)
            self._requests.append(_request_row(request.tag))

    def _first_half(self, output: SchedulerOutput, now_ns: int, freed_preempt: int) -> FirstHalf:
        scheduler = self._scheduler
        queues = scheduler.queues
        new, lookups = output.scheduled_new_reqs, output.lookups
        prefill_tokens = sum(grant.num_new_tokens for grant in output.prefills)
        spec_tokens = sum(output.scheduled_spec_decode_tokens.values())
        return FirstHalf(
            start_ns=now_ns,
            decided=(
                output.token_budget,
                prefill_tokens + output.decode_tokens + spec_tokens,
                prefill_tokens,
                output.decode_tokens,
                spec_tokens,
                output.context_tokens,
                len(output.num_scheduled_tokens),
            ),
            queues=(
                len(scheduler.running),
                len(queues.waiting),
                len(queues.skipped_waiting),
                scheduler.num_waiting_for_streaming_input,
                self._blocks_held_waiting(),
                len(new),
                len(output.scheduled_resumed_reqs),
            ),
            evictions=(
                len(output.victims),
                [victim.request.tag.row for victim in output.victims],
                sum(victim.num_computed_tokens for victim in output.victims),
                output.admissions_cancelled,
                output.admissions_cancelled_fit,
                output.budget_stranded,
                output.running_stop.label,
                output.admission_stop.label,
                output.binding_limit.value,
            ),
            prefix=(
                sum(request.num_prompt_tokens for request in new if request.request_id in lookups),
                sum(lookups.get(request.request_id, 0) for request in new),
            ),
            freed_preempt=freed_preempt,
            decisions=self._digest.update(output),
        )

    def _blocks_held_waiting(self) -> int:
        """Blocks of requests in the queues: loads under way, sessions between two inputs."""
        scheduler = self._scheduler
        if scheduler.transfers is None and not scheduler.has_sessions:
            return 0
        return sum(len(request.block_ids) for request in scheduler.queues)

    def _emissions(self, outputs: EngineCoreOutputs, end_ns: int) -> None:
        index, before = self.num_passes, self.num_passes - 1
        interval = end_ns - self._last_end_ns
        in_step = 0
        for request in outputs.emitted:
            row = request.tag
            row.emitted_tokens += outputs.num_new_tokens.get(request.request_id, 1)
            if row.last_pass == before and before >= 0:
                in_step += 1
                if row.itl_max_ns is None or interval > row.itl_max_ns:
                    row.itl_max_ns = interval
            elif row.first_token_ns is None:
                row.first_token_ns = end_ns
            else:
                own = end_ns - row.last_token_ns
                row.itl_max_ns = max(row.itl_max_ns or 0, own)
                if end_ns >= self._warmup_ns:
                    self.itl[own] += 1
            row.last_pass = index
            row.last_token_ns = end_ns
        if in_step and end_ns >= self._warmup_ns:
            self.itl[interval] += in_step

    def _end(self, request: Request, now_ns: int, reason: str) -> None:
        row = request.tag
        row.finish_ns = now_ns
        row.finish_reason = reason
        self._waits.leaves(row)
        self._requests.append(_request_row(row))


def _request_row(row: Row) -> tuple[object, ...]:
    first, finish = row.first_token_ns, row.finish_ns
    served = row.finish_reason in ("stop", "length")
    tpot = None
    if served and finish is not None and first is not None and row.emitted_tokens > 1:
        tpot = (finish - first) // (row.emitted_tokens - 1)
    return (
        row.row,
        row.request_id,
        row.client,
        row.priority,
        row.lora,
        row.group,
        row.session,
        row.prompt_tokens,
        row.emitted_tokens,
        row.arrival_ns,
        row.first_scheduled_ns,
        first,
        finish,
        None if first is None else first - row.arrival_ns,
        tpot,
        row.itl_max_ns,
        finish - row.arrival_ns if served and finish is not None else None,
        row.cached_tokens,
        row.resumed_cached_tokens,
        row.preemptions,
        row.preempted_tokens,
        row.preempted_tokens - row.resumed_cached_tokens,
        row.finish_reason,
        *row.waited_ns,
    )
