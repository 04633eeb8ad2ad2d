"""Turns what the scheduler did into rows: one a pass, one a request.

Everything in a row follows from trace, flags and reported pass times. Real time stands apart, in
the timings.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from schedbench.runner.waits import WaitClock

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
        for request, computed, tokens in output.prefills:
            kind = CHUNK
            if request.request_id in output.lookups:
                kind = RESUMED if request.num_preemptions else ADMITTED
            changes.extend((kind, request.tag.row, tokens, computed))
        for victim in output.victims:
            changes.extend((VICTIM, victim.request.tag.row))
        payload = changes.tobytes() + (stops.encode() if stops != self._stops else b"")
        self._stops = stops
        self.value = int.from_bytes(hashlib.blake2b(payload, digest_size=8).digest(), "little")
        return self.value


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
        self._freed = (0, 0)
        self._aborted = 0
        self._last_end_ns = 0
        self.itl: Counter[int] = Counter()  # interval in ns -> how often
        self.num_passes = 0

    def arrived(self, row: Row, now_ns: int) -> None:
        self._waits.enters(row, now_ns - row.arrival_ns)

    def schedule_starts(self, now_ns: int) -> None:
        self._waits.schedule_starts(now_ns)

    def aborted(self, requests: Iterable[Request], now_ns: int) -> None:
        for request in requests:
            self._aborted += 1
            self._end(request, now_ns, "abort")

    def evicted(self, victims: Iterable[Victim]) -> None:
        """Note running requests that were sent back to the queue."""
        for victim in victims:
            self._evicted(victim.request.tag, victim.num_computed_tokens)

    def scheduled(self, output: SchedulerOutput, now_ns: int) -> None:
        """Note admissions and victims, before the pass is executed."""
        for request in output.scheduled_new_reqs:
            row = request.tag
            self._waits.leaves(row)
            row.first_scheduled_ns = now_ns
            row.cached_tokens = output.lookups.get(request.request_id, 0)
        for request in output.scheduled_resumed_reqs:
            self._waits.leaves(request.tag)
            request.tag.resumed_cached_tokens += output.lookups.get(request.request_id, 0)
        self.evicted(output.victims)
        self._waits.schedule_ended(output.admission_stop, output.set_aside)

    def passed(
        self,
        output: SchedulerOutput,
        queues: tuple[int, int, int],
        result: PassResult,
        outputs: EngineCoreOutputs,
        start_ns: int,
        end_ns: int,
    ) -> None:
        """Write the row of a pass that was executed and folded in.

        `queues` are the lengths of running, waiting and skipped_waiting after `schedule()`.
        """
        self._emissions(outputs, end_ns)
        for request, reason in outputs.finished:
            self._end(request, end_ns, reason)
        self._passes.append(self._row(output, queues, result, outputs, start_ns))
        self.num_passes += 1
        self._aborted = 0
        self._last_end_ns = end_ns

    def unfinished(self, requests: Iterable[Request]) -> None:
        """Write the rows of requests that are still alive when the run ends."""
        for request in sorted(requests, key=lambda each: each.tag.row):
            self._waits.leaves(request.tag)
            self._requests.append(_request_row(request.tag))

    def _evicted(self, row: Row, num_computed_tokens: int) -> None:
        row.preemptions += 1
        row.preempted_tokens += num_computed_tokens
        self._waits.enters(row)

    def _emissions(self, outputs: EngineCoreOutputs, end_ns: int) -> None:
        index, before = self.num_passes, self.num_passes - 1
        interval = end_ns - self._last_end_ns
        in_step = 0
        for request in outputs.emitted:
            row = request.tag
            row.emitted_tokens += 1
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

    def _row(
        self,
        output: SchedulerOutput,
        queues: tuple[int, int, int],
        result: PassResult,
        outputs: EngineCoreOutputs,
        start_ns: int,
    ) -> tuple[object, ...]:
        scheduler = self._scheduler
        pool = scheduler.kv_cache.pool
        prefill_tokens = sum(grant.num_new_tokens for grant in output.prefills)
        freed = (scheduler.blocks_freed_preempt, scheduler.blocks_freed_finish)
        freed_preempt, freed_finish = freed[0] - self._freed[0], freed[1] - self._freed[1]
        self._freed = freed
        new = output.scheduled_new_reqs
        return (
            self.num_passes,
            start_ns,
            result.duration_ns,
            output.token_budget,
            prefill_tokens + output.decode_tokens,
            prefill_tokens,
            output.decode_tokens,
            0,
            output.context_tokens,
            len(output.num_scheduled_tokens),
            len(outputs.emitted),
            *queues,
            0,
            0,
            len(new),
            len(output.scheduled_resumed_reqs),
            len(outputs.finished),
            0,
            self._aborted,
            len(output.victims),
            [victim.request.tag.row for victim in output.victims],
            sum(victim.num_computed_tokens for victim in output.victims),
            output.admissions_cancelled,
            output.admissions_cancelled_fit,
            output.budget_stranded,
            output.running_stop.label,
            output.admission_stop.label,
            output.binding_limit.value,
            pool.num_gpu_blocks - 1 - pool.num_free,
            pool.num_free,
            pool.num_cached,
            freed_preempt,
            freed_finish,
            sum(request.tag.prompt_tokens for request in new),
            sum(request.tag.cached_tokens or 0 for request in new),
            self._digest.update(output),
        )


def _request_row(row: Row) -> tuple[object, ...]:
    first, finish = row.first_token_ns, row.finish_ns
    served = row.finish_reason in ("stop", "length")
    tpot = None
    if served and finish is not None and first is not None and row.emitted_tokens > 1:
        tpot = (finish - first) / (row.emitted_tokens - 1)
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
