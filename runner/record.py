"""Turns what the scheduler did into rows: one a pass, one a request.

Everything in a row follows from trace, flags and reported pass times. Real time stands apart, in
the timings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from schedbench.results.pass_log import PASS_COLUMNS
from schedbench.results.run_rows import Growth, RunRows
from schedbench.runner.decision_digest import DecisionDigest
from schedbench.runner.intervals import IntervalCounts
from schedbench.runner.peaks import Peaks
from schedbench.runner.waits import WaitClock
from schedbench.sched.request import FINISH_REASON, RequestStatus
from schedbench.sched.verdicts import LIMIT_OF, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.results.row_buffer import Log
    from schedbench.results.run_rows import Integers
    from schedbench.runner.api import PassResult
    from schedbench.runner.requests import Row
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput, Victim
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler
    from schedbench.sched.steady import DecodeRun, Ended


class RowSink(Protocol):
    """Takes rows as tuples, in the order of the columns."""

    def append(self, row: tuple[object, ...]) -> None: ...


@dataclass(slots=True)
class FirstHalf:
    """What `schedule()` settled of a pass's row, kept until the pass is folded in."""

    start_ns: int
    decided: tuple[int, ...]
    queues: tuple[int, ...]
    evictions: tuple[object, ...]
    prefix: tuple[int, int]
    blocks: tuple[int, int, int]  # used, free and cached, at the end of `schedule()`
    freed_preempt: int
    decisions: int


class Recorder:
    """Collects a run's rows. All times are ns of the simulated clock.

    `warmup_ns`: intervals between tokens that end before it are left out of `itl`.
    """

    def __init__(
        self, scheduler: Scheduler, passes: Log, requests: RowSink, warmup_ns: int = 0
    ) -> None:
        self._scheduler = scheduler
        self._passes = RunRows(passes, PASS_COLUMNS)
        self._requests = requests
        self.warmup_ns = warmup_ns
        self.digest = DecisionDigest()
        self.waits = WaitClock()
        self.peaks = Peaks()
        self._freed_preempt = 0
        self._freed_finish = 0
        self._aborted = 0
        self.last_end_ns = 0
        self.itl = IntervalCounts()
        self.num_passes = 0

    def arrived(self, row: Row, now_ns: int) -> None:
        self.waits.enters(row, now_ns - row.arrival_ns)

    def time_is(self, now_ns: int) -> None:
        """Move the clock of the waits; before anybody enters or leaves the queues."""
        self.waits.advance(now_ns)

    def paused(self, verdict: Verdict) -> None:
        """Note why everyone waits from here on, if no pass is made that says so."""
        self.waits.schedule_ended(verdict, [])

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
            self.waits.enters(row)

    def scheduled(self, output: SchedulerOutput, now_ns: int) -> FirstHalf:
        """Note a pass as it was decided; its row is written when it is folded in."""
        self.waits.advance(now_ns)
        for request in output.scheduled_new_reqs:
            row = request.tag
            self.waits.leaves(row)
            if row.first_scheduled_ns is None:
                row.first_scheduled_ns = now_ns
                row.cached_tokens = output.lookups.get(request.request_id, 0)
        for request in output.scheduled_resumed_reqs:
            self.waits.leaves(request.tag)
            request.tag.resumed_cached_tokens += output.lookups.get(request.request_id, 0)
        self.evicted(output.victims)
        self.waits.schedule_ended(output.admission_stop, output.set_aside)
        freed, self._freed_preempt = self._freed_preempt, self._scheduler.blocks_freed_preempt
        return self._first_half(output, now_ns, self._freed_preempt - freed)

    def folded(
        self,
        first_half: FirstHalf,
        result: PassResult,
        outputs: EngineCoreOutputs,
        end_ns: int,
        put_aside: tuple[int, Ended] = (0, []),
    ) -> None:
        """Write the row of a pass that was executed and folded in at `end_ns`.

        `put_aside`: how many requests emitted without being listed in the outputs, and those of
        them that ended, each with the passes it decoded in since it was put aside.
        """
        num_put_aside, ended = put_aside
        self._emissions(outputs, end_ns, num_put_aside)
        self.caught_up(ended, end_ns, self.num_passes + 1)
        if outputs.finished or outputs.segments_done:
            self.waits.advance(end_ns)
        for request, reason in outputs.finished:
            self._end(request, end_ns, reason)
        for request in outputs.segments_done:
            self.waits.enters(request.tag)
            if request.status is RequestStatus.WAITING_FOR_STREAMING_REQ:
                self.waits.sets_aside(request, Verdict.AWAITING_INPUT)
        freed, self._freed_finish = self._freed_finish, self._scheduler.blocks_freed_finish
        stopped_waiting = {request for request in outputs.stopped_waiting if request.is_finished}
        self._passes.append(
            (
                self.num_passes,
                first_half.start_ns,
                result.duration_ns,
                end_ns,
                *first_half.decided,
                len(outputs.emitted) + num_put_aside,
                *first_half.queues,
                len(outputs.finished),
                len(stopped_waiting),
                self._aborted,
                *first_half.evictions,
                *first_half.blocks,
                first_half.freed_preempt,
                self._freed_finish - freed,
                *first_half.prefix,
                first_half.decisions,
            )
        )
        self.num_passes += 1
        self._aborted = 0
        self.last_end_ns = end_ns

    def ran(self, run: DecodeRun, start_ns: int, durations_ns: int | Integers) -> int:
        """Write the rows of a run of passes; the clock after the last of them."""
        first_ns = durations_ns if isinstance(durations_ns, int) else int(durations_ns[0])
        self.waits.advance(start_ns)
        self.waits.schedule_ended(run.stop, [])
        end_ns = self.intervals(run.num_passes, run.num_decodes, start_ns, durations_ns)
        freed, self._freed_finish = self._freed_finish, self._scheduler.blocks_freed_finish
        usable = self._scheduler.kv_cache.pool.num_gpu_blocks - 1
        num_decodes, budget = run.num_decodes, self._scheduler.config.token_budget
        stop = run.stop
        decisions = self.digest.changed(b"", f"{Verdict.LIST_DONE.label} {stop.label}")
        row = (
            *(self.num_passes, start_ns, first_ns, start_ns + first_ns, budget),
            *(num_decodes, 0, num_decodes, 0, run.context_tokens, num_decodes, num_decodes),
            *(run.num_running, run.num_waiting, run.num_skipped),
            *(self._scheduler.num_waiting_for_streaming_input, self._blocks_held_waiting()),
            *(0, 0, 0, 0, self._aborted, 0, 0, (), 0, 0, 0, 0),
            *(Verdict.LIST_DONE.label, stop.label, LIMIT_OF[stop].value),
            *(usable - run.num_free, run.num_free, run.num_cached, self._pending_preempt()),
            *(self._freed_finish - freed - run.num_freed, 0, 0, decisions),
        )
        growth = Growth(
            num_decodes,
            durations_ns,
            run.opens,
            run.phase,
            run.num_free,
            run.num_bare,
            run.num_cached,
            self._scheduler.config.enable_prefix_caching,
            len(run.ended),
            run.num_freed,
        )
        self._passes.append_run(row, run.num_passes, growth)
        self.num_passes += run.num_passes
        self._aborted = 0
        self.last_end_ns = end_ns
        self.caught_up(run.ended, end_ns, self.num_passes)
        for request, _ in run.ended:
            self._end(request, end_ns, FINISH_REASON[request.status])
        return end_ns

    def ran_ahead(
        self,
        run: DecodeRun,
        first_half: FirstHalf,
        durations_ns: tuple[int, int | Integers],
        now_ns: int,
    ) -> tuple[int, FirstHalf]:
        """Write the rows of a run scheduled one pass ahead, from the pass in flight on.

        `first_half` and the first duration are that pass's, the other durations those of the passes
        scheduled; the last of them stays in flight. Returns the clock, and its first half.
        """
        first_ns, others_ns = durations_ns
        self.waits.advance(now_ns)
        self.waits.schedule_ended(run.stop, [])
        count = run.num_passes
        durations: int | Integers = first_ns
        gaps: int | Integers = first_ns
        if others_ns is not first_ns and (not isinstance(others_ns, int) or others_ns != first_ns):
            scheduled = np.broadcast_to(np.asarray(others_ns, np.int64), count)
            durations = np.concatenate(([first_ns], scheduled[: count - 1]))
        if not isinstance(durations, int) or now_ns - first_half.start_ns != first_ns:
            behind = np.broadcast_to(np.asarray(durations, np.int64), count)
            gaps = np.concatenate(([now_ns - first_half.start_ns], behind[: count - 1]))
        end_ns = self.intervals(run.num_passes, run.num_decodes, now_ns, durations)
        freed, self._freed_finish = self._freed_finish, self._scheduler.blocks_freed_finish
        row = (
            self.num_passes,
            first_half.start_ns,
            first_ns,
            now_ns + first_ns,
            *first_half.decided,
            run.num_decodes,
            *first_half.queues,
            0,
            0,
            self._aborted,
            *first_half.evictions,
            *first_half.blocks,
            first_half.freed_preempt,
            self._freed_finish - freed,
            *first_half.prefix,
            first_half.decisions,
        )
        growth = Growth(
            run.num_decodes,
            durations,
            run.opens,
            run.phase,
            run.num_free,
            run.num_bare,
            run.num_cached,
            self._scheduler.config.enable_prefix_caching,
            0,
            0,
            ahead=True,
            gaps_ns=gaps,
        )
        self._passes.append_run(row, count, growth)
        self.num_passes += count
        self._aborted = 0
        self.last_end_ns = end_ns
        start_ns = first_half.start_ns + int(gaps * count if isinstance(gaps, int) else gaps.sum())
        *decided, context, num_seqs = first_half.decided
        half = replace(
            first_half,
            start_ns=start_ns,
            decided=(*decided, context + run.num_decodes * count, num_seqs),
            blocks=self._blocks(),
            freed_preempt=0,
        )
        return end_ns, half

    def caught_up(
        self,
        decoded: Ended,
        end_ns: int | None = None,
        index: int | None = None,
    ) -> None:
        """Give requests that were put aside a token for each of their passes up to `index`."""
        end_ns = self.last_end_ns if end_ns is None else end_ns
        index = self.num_passes if index is None else index
        for request, num_passes in decoded:
            if not num_passes:
                continue
            row = request.tag
            row.emitted_tokens += num_passes
            row.last_pass = index - 1
            row.last_token_ns = end_ns
            largest = self.peaks.largest_since(index - num_passes)
            row.itl_max_ns = max(row.itl_max_ns or 0, largest)

    def intervals(
        self, num_passes: int, num_decodes: int, start_ns: int, durations_ns: int | Integers
    ) -> int:
        """Count the gaps between the tokens of a run; the end of its last pass.

        Everybody emitted in the pass before, so that the first gap reaches back to its end.
        """
        last = num_passes - 1
        if isinstance(durations_ns, int) and start_ns + durations_ns >= self.warmup_ns:
            first = start_ns + durations_ns - self.last_end_ns
            self.itl[first] += num_decodes
            self.peaks.push(self.num_passes, first)
            if last:
                self.itl[durations_ns] += num_decodes * last
                self.peaks.push(self.num_passes + last, durations_ns)
            return start_ns + durations_ns * num_passes
        ends = start_ns + np.cumsum(np.broadcast_to(durations_ns, num_passes))
        intervals = np.diff(ends, prepend=self.last_end_ns)
        for place, interval in enumerate(intervals.tolist()):
            self.peaks.push(self.num_passes + place, interval)
        values, counts = np.unique(intervals[ends >= self.warmup_ns], return_counts=True)
        for interval, count in zip(values.tolist(), counts.tolist(), strict=True):
            self.itl[interval] += count * num_decodes
        return int(ends[-1])

    def _pending_preempt(self) -> int:
        freed, self._freed_preempt = self._freed_preempt, self._scheduler.blocks_freed_preempt
        return self._freed_preempt - freed

    def in_step(self, requests: Iterable[Request]) -> bool:
        """Whether all of them got a token in the pass folded in last; a full budget skips some."""
        last = self.num_passes - 1
        return all(request.tag.last_pass == last for request in requests)

    def flush(self) -> None:
        """Pass on rows that are still to be expanded."""
        self._passes.flush()

    def unfinished(self, requests: Iterable[Request]) -> None:
        """Write the rows of requests that are still alive when the run ends."""
        alive = [request for request in requests if not request.is_finished]
        for request in sorted(alive, key=lambda each: each.tag.row):
            self.waits.leaves(request.tag)
            self._requests.append(_request_row(request.tag))

    def _first_half(self, output: SchedulerOutput, now_ns: int, freed_preempt: int) -> FirstHalf:
        scheduler = self._scheduler
        queues = scheduler.queues
        new, lookups = output.scheduled_new_reqs, output.lookups
        victims = [*output.reset_victims, *output.victims]
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
                output.num_seqs,
            ),
            queues=(
                len(scheduler.running),
                queues.num_waiting,
                queues.num_skipped_waiting,
                scheduler.num_waiting_for_streaming_input,
                self._blocks_held_waiting(),
                len(new),
                len(output.scheduled_resumed_reqs),
            ),
            evictions=(
                len(victims),
                len(output.reset_victims),
                [victim.request.tag.row for victim in victims],
                sum(victim.num_computed_tokens for victim in victims),
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
            blocks=self._blocks(),
            freed_preempt=freed_preempt,
            decisions=self.digest.update(output),
        )

    def _blocks(self) -> tuple[int, int, int]:
        """Blocks used, free and cached, as they are now."""
        pool = self._scheduler.kv_cache.pool
        return pool.num_gpu_blocks - 1 - pool.num_free, pool.num_free, pool.num_cached

    def _blocks_held_waiting(self) -> int:
        """Blocks of requests in the queues: loads under way, sessions between two inputs."""
        scheduler = self._scheduler
        if scheduler.transfers is None and not scheduler.has_sessions:
            return 0
        return sum(len(request.block_ids) for request in scheduler.queues)

    def _emissions(self, outputs: EngineCoreOutputs, end_ns: int, num_put_aside: int) -> None:
        index, before = self.num_passes, self.num_passes - 1
        interval = end_ns - self.last_end_ns
        self.peaks.push(index, interval)
        in_step = num_put_aside
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
                if end_ns >= self.warmup_ns:
                    self.itl[own] += 1
            row.last_pass = index
            row.last_token_ns = end_ns
        if in_step and end_ns >= self.warmup_ns:
            self.itl[interval] += in_step

    def _end(self, request: Request, now_ns: int, reason: str) -> None:
        row = request.tag
        row.finish_ns = now_ns
        row.finish_reason = reason
        self.waits.leaves(row)
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
        row.requested_output_tokens,
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
