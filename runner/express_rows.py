"""The express way's rows: a batch of steps and of ended requests, turned into columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from schedbench.results.run_rows import Expansion
from schedbench.runner.decision_digest import ADMITTED, RESUMED
from schedbench.runner.express_batch import END_FIELDS, GRANT_FIELDS, columns
from schedbench.runner.express_ledger import (
    VERDICTS,
    Largest,
    QueueWaits,
    decisions,
    gaps_of_passes,
    gaps_of_steps,
)
from schedbench.runner.waits import WAIT_LABELS
from schedbench.sched.verdicts import LIMIT_OF, Limit, Verdict

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable, Sequence

    from schedbench.results.row_buffer import Log
    from schedbench.results.run_rows import Integers
    from schedbench.runner.express_batch import Batch
    from schedbench.runner.express_ledger import Digests
    from schedbench.runner.record import Recorder
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.express import Job, JobHeap
    from schedbench.workloads.trace import Trace

LABELS = pa.array([verdict.label for verdict in VERDICTS])
LIMITS = pa.array([limit.value for limit in Limit])
REASONS = pa.array(["length", "stop"])
NOBODY = pa.array([], pa.int64())
FEW = (
    *("resumed", "ended_waiting", "preempted", "preempted_tokens"),
    *("cancelled", "fit", "stranded", "freed_preempt"),
)
"""Of the steps' fields, those that are nearly always 0."""
_LIMITS = list(Limit)
_CODE_OF_LIMIT = np.array(
    [_LIMITS.index(LIMIT_OF.get(verdict, Limit.NOTHING)) for verdict in VERDICTS], np.int32
)


class ExpressRows:
    """Where batches go. What a recorder knows of passes goes on from batch to batch."""

    def __init__(
        self, logs: tuple[Log, Log, Log], trace: Trace, config: SchedulerConfig, recorder: Recorder
    ) -> None:
        passes, timings, requests = logs
        self._passes = PassRows(passes, timings, config)
        self._requests = RequestRows(requests, trace)
        self._prompt_tokens = trace.table["prompt_tokens"]
        self._recorder = recorder
        self._waits = QueueWaits()

    def write(
        self,
        batch: Batch,
        running: Iterable[Job],
        waiting: deque[Job] | JobHeap,
        pending: tuple[int, int] | None = None,
    ) -> None:
        """Make rows of a batch; who is running and waiting is brought up to date.

        `pending`: start, ns, and number of the stop of a pass in flight, which is no step yet.
        """
        recorder, of = self._recorder, batch.steps()
        self._waits.settle(batch, of, waiting, pending)
        if not batch.num_steps:
            return
        expansion = Expansion(of["passes"])
        durations = of["duration_ns"][expansion.run]
        for place, values in batch.durations.items():
            first = expansion.first[place]
            durations[first : first + len(values)] = values
        digests = decisions(recorder.digest, batch, of)
        self._grants(batch, of)
        if batch.durations or recorder.last_end_ns < recorder.warmup_ns:
            facts = (of, recorder.last_end_ns, expansion, durations, recorder.warmup_ns)
            gaps, tokens, largest = gaps_of_passes(*facts)
        else:
            gaps, tokens, largest = gaps_of_steps(of, recorder.last_end_ns)
        recorder.itl.count(gaps, tokens)
        ends = columns(batch.ends, END_FIELDS)
        ends["itl_max_ns"] = self._settle_gaps(
            batch, ends, running, expansion.first, Largest(largest)
        )
        self._passes.write(batch, of, expansion, durations, digests)
        self._requests.write(ends, batch.ended)
        recorder.num_passes += len(expansion.run)
        recorder.last_end_ns = int(of["end_ns"][-1])

    def hand_over(self, waiting: Iterable[Job]) -> None:
        """Let the recorder go on with the waits, after the last batch."""
        self._waits.hand_over(waiting, self._recorder.waits)

    def _grants(self, batch: Batch, of: dict[str, Integers]) -> None:
        """Count what was granted to prompts, by step."""
        granted = columns(batch.grants, GRANT_FIELDS)
        ends = np.maximum.accumulate(of["grants_end"]) // (8 * len(GRANT_FIELDS))
        count = np.diff(ends, prepend=0)
        place = np.repeat(np.arange(len(ends)), count)
        new, again = granted["kind"] == ADMITTED, granted["kind"] == RESUMED
        asked = np.zeros(len(place), np.int64)
        asked[new] = self._prompt_tokens.take(pa.array(granted["row"][new])).to_numpy()
        hit = np.where(new, granted["computed"], 0)
        sums = (
            *(("admitted", new), ("resumed", again)),
            *(("query_tokens", asked), ("hit_tokens", hit)),
        )
        of["prefills"] = count
        for name, values in (*sums, ("prefill_tokens", granted["new_tokens"])):
            of[name] = np.bincount(place, values, len(ends)).astype(np.int64)

    def _settle_gaps(
        self,
        batch: Batch,
        ends: dict[str, Integers],
        running: Iterable[Job],
        first_pass: Integers,
        largest: Largest,
    ) -> Integers:
        """Find the largest gap that each request has seen up to here, as far as it decoded.

        Of those that ended it is the answer, -1 if there was none.
        """
        first_pass = first_pass + self._recorder.num_passes
        last = batch.num_steps - 1
        spans = [(job, job.began, last) for job in running if job.began >= 0]
        spans += batch.decoded
        if spans:
            jobs, began, place = zip(*spans, strict=True)
            first = np.searchsorted(first_pass, np.array(began))
            seen = largest.between(first, np.array(place))
            for job, gap in zip(jobs, seen.tolist(), strict=True):
                job.itl_max_ns = max(job.itl_max_ns, gap)
        before = np.array([job.itl_max_ns for job in batch.ended], np.int64)
        first = np.searchsorted(first_pass, ends["began"])
        since = largest.between(first, np.where(ends["began"] < 0, -1, ends["place"]))
        return np.maximum(before, since)


class PassRows:
    """Steps, expanded into rows of the pass log and of the timings."""

    def __init__(self, passes: Log, timings: Log, config: SchedulerConfig) -> None:
        self._passes = passes
        self._timings = timings
        self._token_budget = config.token_budget
        self._usable = config.usable_blocks
        self._caches = config.enable_prefix_caching
        self._block_size = config.block_size
        self._ahead = config.runs_ahead
        self._first = 0

    def write(
        self,
        batch: Batch,
        of: dict[str, Integers],
        expansion: Expansion,
        durations: Integers,
        digests: Digests,
    ) -> None:
        """Pass the rows of a batch on; durations are those of the passes, the rest the steps'."""
        run = expansion.run
        number = self._first + np.arange(len(run))
        first = of["start_ns"][run]
        done = expansion.sum_through(durations)
        last = expansion.first + expansion.sizes - 1
        values = [
            number,
            first + expansion.sum_before(self._gaps(of, expansion, durations)),
            durations,
            (of["end_ns"] - done[last])[run] + done,
            *self._columns(batch, of, expansion),
            digests[run],
        ]
        self._passes.extend_columns(len(number), values)
        self._timings.extend_columns(
            len(number), [number, of["scheduler_ns"][run], None, None, None]
        )
        self._first += len(number)

    def _columns(self, batch: Batch, of: dict[str, Integers], expansion: Expansion) -> list[object]:
        """All columns between the end and the digest."""
        step, each = expansion.step, expansion.each
        free, cached = self._blocks(of, expansion, batch)
        growth = expansion.each(of["decodes"]) * step
        few = {name: _of_few(of[name], expansion) for name in FEW}
        of = {name: _narrow(values) for name, values in of.items()}
        decodes, prefill_tokens = of["decodes"], of["prefill_tokens"]
        return [
            self._token_budget,
            each(decodes + prefill_tokens),
            each(prefill_tokens),
            each(decodes),
            0,
            each(of["context_tokens"]) + growth,
            each(decodes + of["prefills"]),
            each(of["in_step"] + of["done"]),
            each(of["running"]),
            each(of["waiting"]),
            0,
            0,
            0,
            each(of["admitted"]),
            few["resumed"],
            expansion.at_last(of["finished"]),
            few["ended_waiting"],
            0,
            few["preempted"],
            0,
            self._victim_lists(of["preempted"], expansion, batch),
            few["preempted_tokens"],
            few["cancelled"],
            few["fit"],
            few["stranded"],
            _labels(of["running_stop"], LABELS, expansion.sizes),
            _labels(of["admission_stop"], LABELS, expansion.sizes),
            _labels(_limits(of), LIMITS, expansion.sizes),
            self._usable - free,
            free,
            cached,
            few["freed_preempt"],
            expansion.at_last(of["freed_finish"]),
            each(of["query_tokens"]),
            each(of["hit_tokens"]),
        ]

    def _gaps(self, of: dict[str, Integers], expansion: Expansion, durations: Integers) -> Integers:
        """From each pass's start to the next one's: one pass later, if one is in flight."""
        if not self._ahead:
            return durations
        gaps = np.roll(durations, 1)
        gaps[expansion.first] = of["first_gap_ns"]
        return gaps

    def _victim_lists(self, number: Integers, expansion: Expansion, batch: Batch) -> pa.Array:
        if not batch.victims:
            offsets = np.zeros(len(expansion.run) + 1, np.int32)
            return pa.ListArray.from_arrays(offsets, NOBODY)
        lengths = expansion.each(number)
        flat = [row for rows in batch.victims.values() for row in rows]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(flat, pa.int64()))

    def _blocks(
        self, of: dict[str, Integers], expansion: Expansion, batch: Batch
    ) -> tuple[Integers, Integers]:
        """Free and hashed blocks at the end of each schedule; free ones without a hash go first."""
        run, size = expansion.run, self._block_size
        free, cached = of["free"][run], of["cached"][run]
        runs = np.flatnonzero(of["phase"] >= 0)
        if not len(runs):
            return free, cached
        opens = np.zeros((len(of["phase"]), size), np.int64)
        opens[runs] = np.frombuffer(batch.opens, np.int64).reshape(-1, size)
        at = of["phase"][run] + expansion.step
        # With a pass in flight the blocks of the run's first pass are taken before the run begins,
        # and the schedule of the next pass sees what became full.
        through = expansion.sum_before if self._ahead else expansion.sum_through
        opened = through(opens[run, at % size])
        full = through(opens[run, (at if self._ahead else at + 1) % size]) * self._caches
        hashed_taken = np.maximum(opened - of["bare"][run], 0)
        is_run = of["phase"][run] >= 0
        hashed = np.where(is_run, full - hashed_taken, 0)
        return free - opened, cached + hashed


def _of_few(values: Integers, expansion: Expansion) -> Integers | int:
    """A value by run for each row, where it is 0 nearly always."""
    return expansion.each(_narrow(values)) if values.any() else 0


def _narrow(values: Integers) -> Integers:
    """In 32 bits, as columns of counts are, if they fit."""
    fits = not len(values) or -(2**31) <= values.min() <= values.max() < 2**31
    return values.astype(np.int32) if fits else values


def _limits(of: dict[str, Integers]) -> Integers:
    """What held each step back: what ended admission, or a budget that cut a prompt."""
    cut = (of["admission_stop"] == Verdict.QUEUES_EMPTY.number) & (of["cut"] > 0)
    return np.where(cut, _LIMITS.index(Limit.BUDGET), _CODE_OF_LIMIT[of["admission_stop"]])


def _labels(codes: Integers, labels: pa.Array, sizes: Integers | int = 1) -> pa.Array:
    """Labels by code, each as often as `sizes` says; only those there are, as they come."""
    used, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    indices = np.repeat(rank[places], sizes)
    return pa.DictionaryArray.from_arrays(indices, labels.take(pa.array(used[order])))


TOLD = (
    "prompt_tokens",
    "output_tokens",
    "max_tokens",
    "request_id",
    "client",
    "priority",
    "lora",
    "group",
    "session",
)
"""Trace columns that a row of the requests table takes over or is worked out from."""


class RequestRows:
    """Finished requests, turned into rows of the requests table by the trace's own columns."""

    def __init__(self, requests: Log, trace: Trace) -> None:
        self._requests = requests
        self._facts = trace.table.select([name for name in TOLD if trace.has(name)])

    def write(self, of: dict[str, Integers], jobs: Sequence[Job]) -> None:
        """Pass on the rows of requests that ended; `of` has `END_FIELDS` and gaps."""
        if jobs:
            self._requests.extend_columns(len(jobs), self._columns(of, jobs))

    def _columns(self, of: dict[str, Integers], jobs: Sequence[Job]) -> list[object]:
        facts = self._facts.take(pa.array(of["row"]))
        arrival = of["arrival_ns"]
        finish, first, emitted = of["finish_ns"], of["first_token_ns"], of["output_tokens"]
        output = facts["output_tokens"].to_numpy()
        stopped = np.zeros(len(output), bool)
        if "max_tokens" in facts.column_names:
            cap = facts["max_tokens"].fill_null(0).to_numpy()
            cap = np.where(cap == 0, output, cap)
            stopped = (output < cap) & (emitted == output)
        several = emitted > 1
        itl_max = of["itl_max_ns"]
        tpot = (finish - first) // np.maximum(emitted - 1, 1)
        return [
            of["row"],
            self._ids(of["row"], facts),
            *(_given(facts, name, 0) for name in ("client", "priority", "lora")),
            *(_given(facts, name, None) for name in ("group", "session")),
            facts["prompt_tokens"].combine_chunks(),
            output,
            emitted,
            arrival,
            of["first_scheduled_ns"],
            first,
            finish,
            first - arrival,
            pa.array(tpot, mask=~several),
            pa.array(itl_max, mask=itl_max < 0),
            finish - arrival,
            of["cached_tokens"],
            of["resumed_cached_tokens"],
            of["preemptions"],
            of["preempted_tokens"],
            of["preempted_tokens"] - of["resumed_cached_tokens"],
            _labels(stopped.astype(np.int64), REASONS),
            *_waits(of["entered_ns"] - arrival, jobs),
        ]

    def _ids(self, rows: Integers, facts: pa.Table) -> pa.Array:
        own = pa.array(rows).cast(pa.string())
        if "request_id" not in facts.column_names:
            return own
        given = facts["request_id"].combine_chunks()
        return pa.compute.if_else(pa.compute.equal(given, ""), own, given).fill_null(own)


def _waits(in_flight: Integers, jobs: Sequence[Job]) -> list[object]:
    waits = np.zeros((len(jobs), len(WAIT_LABELS)), np.int64)
    places = [place for place, job in enumerate(jobs) if job.waited_ns is not None]
    if places:
        waited = b"".join([jobs[place].waited_ns or b"" for place in places])
        waits[places] = np.frombuffer(waited, np.int64).reshape(len(places), -1)
    waits[:, 0] += in_flight
    return list(waits.T)


def _given(facts: pa.Table, name: str, default: int | None) -> object:
    """A column of the trace, or what its absence means."""
    if name not in facts.column_names:
        return default
    column = facts[name].combine_chunks()
    return column if default is None else column.fill_null(default)
