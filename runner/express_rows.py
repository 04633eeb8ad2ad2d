"""The short way's rows: numbers on their way in, columns many rows at a time on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from schedbench.results.run_rows import Expansion
from schedbench.runner.waits import WAIT_LABELS
from schedbench.sched.verdicts import LIMIT_OF, Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.results.row_buffer import Log
    from schedbench.results.run_rows import Integers
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.express import Job
    from schedbench.workloads.trace import Trace

MOST_OPENS = 131_072  # counts of blocks opened, by step and pass modulo the block size
MOST_PASSES = 65536
MOST_REQUESTS = 8192
VERDICTS = list(Verdict)
LABELS = pa.array([verdict.label for verdict in VERDICTS])
LIMITS = pa.array([limit.value for limit in Limit])
REASONS = pa.array(["length", "stop"])
_LIMITS = list(Limit)
_CODE_OF_LIMIT = np.array(
    [_LIMITS.index(LIMIT_OF.get(verdict, Limit.NOTHING)) for verdict in VERDICTS], np.int32
)

STEP_FIELDS = (
    "passes",
    "start_ns",
    "duration_ns",
    "decodes",
    "context_tokens",
    "prefill_tokens",
    "prefills",
    "emitting",
    "running",
    "waiting",
    "admitted",
    "resumed",
    "finished",
    "ended_waiting",
    "preempted",
    "preempted_tokens",
    "cancelled",
    "fit",
    "stranded",
    "running_stop",
    "admission_stop",
    "cut",
    "free",
    "bare",
    "cached",
    "freed_preempt",
    "freed_finish",
    "query_tokens",
    "scheduler_ns",
    "phase",
    "first_gap_ns",
)
"""What a step says of its passes, the first of them where they grow. Of a single pass, `free` and
`cached` are those after it, and `phase` is -1; of a run, they and `bare` are those before it.
`cut`: a prompt was cut by the budget. `first_gap_ns`, with a pass in flight: from the start of the
first pass to that of the second."""


class StepRows:
    """Steps of the short way, expanded into rows of the pass log and of the timings."""

    def __init__(self, passes: Log, timings: Log, config: SchedulerConfig) -> None:
        self._passes = passes
        self._timings = timings
        self._token_budget = config.token_budget
        self._usable = config.usable_blocks
        self._caches = config.enable_prefix_caching
        self._block_size = config.block_size
        self._ahead = config.runs_ahead
        self._most_steps = max(MOST_OPENS // config.block_size, 1)
        self._steps: list[int] = []
        self._decisions: list[int] = []
        self._opens: list[int] = []
        self._victims: dict[int, Sequence[int]] = {}  # by step
        self._durations: dict[int, Integers] = {}  # by step, where they differ
        self._num_passes = 0
        self._first = 0

    def add(
        self,
        step: tuple[int, ...],
        decisions: int,
        *,
        victims: Sequence[int] = (),
        opens: Sequence[int] = (),
        durations_ns: int | Integers = 0,
    ) -> None:
        """Add a step, a value for each of `STEP_FIELDS`.

        Of a pass, the rows of its `victims`. Of a run, how many open a block, by pass modulo their
        number, and the durations: an array where they are not all the same.
        """
        place = len(self._decisions)
        if victims:
            self._victims[place] = victims
        if not isinstance(durations_ns, int):
            self._durations[place] = durations_ns
        self._opens += opens
        self._steps += step
        self._decisions.append(decisions)
        self._num_passes += step[0]
        if len(self._decisions) >= self._most_steps or self._num_passes >= MOST_PASSES:
            self.flush()

    def flush(self) -> None:
        """Expand what is pending and pass it on."""
        if not self._decisions:
            return
        steps = np.array(self._steps, np.int64).reshape(-1, len(STEP_FIELDS))
        of = dict(zip(STEP_FIELDS, np.ascontiguousarray(steps.T), strict=True))
        expansion = Expansion(of["passes"])
        number = self._first + np.arange(len(expansion.run))
        self._passes.extend_columns(len(number), self._columns(of, expansion, number))
        spent = of["scheduler_ns"][expansion.run]
        self._timings.extend_columns(len(number), [number, spent, None, None, None])
        self._first += len(number)
        self._steps, self._decisions, self._opens, self._num_passes = [], [], [], 0
        self._victims, self._durations = {}, {}

    def _columns(
        self, of: dict[str, Integers], expansion: Expansion, number: Integers
    ) -> list[object]:
        run, step = expansion.run, expansion.step
        durations = of["duration_ns"][run]
        for place, values in self._durations.items():
            first = expansion.first[place]
            durations[first : first + len(values)] = values
        free, cached = self._blocks(of, expansion)
        decodes = of["decodes"][run]
        seqs = decodes + of["prefills"][run]
        tokens = decodes + of["prefill_tokens"][run]
        preempted = of["preempted"]
        return [
            number,
            of["start_ns"][run] + expansion.sum_before(self._gaps(of, expansion, durations)),
            durations,
            self._token_budget,
            tokens,
            of["prefill_tokens"][run],
            decodes,
            0,
            of["context_tokens"][run] + decodes * step,
            seqs,
            of["emitting"][run],
            of["running"][run],
            of["waiting"][run],
            0,
            0,
            0,
            of["admitted"][run],
            of["resumed"][run],
            expansion.at_last(of["finished"]),
            of["ended_waiting"][run],
            0,
            preempted[run],
            self._victim_lists(preempted[run]),
            of["preempted_tokens"][run],
            of["cancelled"][run],
            of["fit"][run],
            of["stranded"][run],
            _labels(of["running_stop"], run, LABELS),
            _labels(of["admission_stop"], run, LABELS),
            _labels(_limits(of), run, LIMITS),
            self._usable - free,
            free,
            cached,
            of["freed_preempt"][run],
            expansion.at_last(of["freed_finish"]),
            of["query_tokens"][run],
            0,
            np.array(self._decisions, np.uint64)[run],
        ]

    def _gaps(self, of: dict[str, Integers], expansion: Expansion, durations: Integers) -> Integers:
        """From each pass's start to the next one's: one pass later, if one is in flight."""
        if not self._ahead:
            return durations
        gaps = np.roll(durations, 1)
        gaps[expansion.first] = of["first_gap_ns"]
        return gaps

    def _victim_lists(self, lengths: Integers) -> pa.Array:
        flat = [row for rows in self._victims.values() for row in rows]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(flat, pa.int64()))

    def _blocks(self, of: dict[str, Integers], expansion: Expansion) -> tuple[Integers, Integers]:
        """Free blocks and hashed ones after each pass; free blocks without a hash go first."""
        run, size = expansion.run, self._block_size
        free, cached = of["free"][run], of["cached"][run]
        runs = np.flatnonzero(of["phase"] >= 0)
        if not len(runs):
            return free, cached
        opens = np.zeros((len(of["phase"]), size), np.int64)
        opens[runs] = np.array(self._opens, np.int64).reshape(-1, size)
        at = of["phase"][run] + expansion.step
        opened = expansion.sum_through(opens[run, at % size])
        full_at = at if self._ahead else at + 1  # a schedule of the next pass has seen it
        full = expansion.sum_through(opens[run, full_at % size]) * self._caches
        freed = expansion.at_last(np.where(of["phase"] >= 0, of["freed_finish"], 0))
        hashed_taken = np.maximum(opened - of["bare"][run], 0)
        is_run = of["phase"][run] >= 0
        hashed = np.where(is_run, full - hashed_taken, 0)
        return free - opened + freed, cached + hashed


def _limits(of: dict[str, Integers]) -> Integers:
    """What held each step back: what ended admission, or a budget that cut a prompt."""
    cut = (of["admission_stop"] == Verdict.QUEUES_EMPTY.number) & (of["cut"] > 0)
    return np.where(cut, _LIMITS.index(Limit.BUDGET), _CODE_OF_LIMIT[of["admission_stop"]])


def _labels(codes: Integers, run: Integers, labels: pa.Array) -> pa.Array:
    """Labels of rows, from the code of each row's run; only those there are, as they come."""
    used, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(rank[places][run], labels.take(pa.array(used[order])))


REQUEST_FIELDS = (
    "row",
    "output_tokens",
    "first_scheduled_ns",
    "first_token_ns",
    "finish_ns",
    "itl_max_ns",
    "resumed_cached_tokens",
    "preemptions",
    "preempted_tokens",
    "in_flight_ns",
)


TOLD = (
    "arrival_ns",
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
        self._ended: list[int] = []
        self._waited: dict[int, Sequence[int]] = {}  # by place among those pending
        self._pending = 0

    def add(self, job: Job, finish_ns: int) -> None:
        """Add a request that got its last token."""
        self._ended += (
            job.row,
            job.emitted,
            job.first_scheduled_ns,
            job.first_token_ns,
            finish_ns,
            job.itl_max_ns,
            job.resumed_cached_tokens,
            job.preemptions,
            job.preempted_tokens,
            job.entered_ns,
        )
        if job.waited_ns is not None:
            self._waited[self._pending] = job.waited_ns
        self._pending += 1
        if self._pending >= MOST_REQUESTS:
            self.flush()

    def flush(self) -> None:
        """Make rows of what is pending."""
        if not self._pending:
            return
        ended = np.array(self._ended, np.int64).reshape(-1, len(REQUEST_FIELDS))
        of = dict(zip(REQUEST_FIELDS, np.ascontiguousarray(ended.T), strict=True))
        self._requests.extend_columns(self._pending, self._columns(of))
        self._ended, self._waited, self._pending = [], {}, 0

    def _columns(self, of: dict[str, Integers]) -> list[object]:
        facts = self._facts.take(pa.array(of["row"]))
        arrival = facts["arrival_ns"].to_numpy()
        finish, first, emitted = of["finish_ns"], of["first_token_ns"], of["output_tokens"]
        output = facts["output_tokens"].to_numpy()
        stopped = np.zeros(len(output), bool)
        if "max_tokens" in facts.column_names:
            cap = facts["max_tokens"].fill_null(0).to_numpy()
            cap = np.where(cap == 0, output, cap)
            stopped = (output < cap) & (emitted == output)
        several = emitted > 1
        tpot = (finish - first) // np.maximum(emitted - 1, 1)
        return [
            of["row"],
            self._ids(of["row"], facts),
            *(_given(facts, name, 0) for name in ("client", "priority", "lora")),
            *(_given(facts, name, None) for name in ("group", "session")),
            facts["prompt_tokens"].combine_chunks(),
            emitted,
            arrival,
            of["first_scheduled_ns"],
            first,
            finish,
            first - arrival,
            pa.array(tpot, mask=~several),
            pa.array(of["itl_max_ns"], mask=of["itl_max_ns"] < 0),
            finish - arrival,
            0,
            of["resumed_cached_tokens"],
            of["preemptions"],
            of["preempted_tokens"],
            of["preempted_tokens"] - of["resumed_cached_tokens"],
            _labels(stopped.astype(np.int64), np.arange(len(stopped)), REASONS),
            *self._waits(of["in_flight_ns"] - arrival),
        ]

    def _ids(self, rows: Integers, facts: pa.Table) -> pa.Array:
        own = pa.array(rows).cast(pa.string())
        if "request_id" not in facts.column_names:
            return own
        given = facts["request_id"].combine_chunks()
        return pa.compute.if_else(pa.compute.equal(given, ""), own, given).fill_null(own)

    def _waits(self, in_flight: Integers) -> list[object]:
        waits = np.zeros((len(WAIT_LABELS), self._pending), np.int64)
        for place, waited in self._waited.items():
            waits[:, place] = waited
        waits[0] += in_flight
        return list(waits)


def _given(facts: pa.Table, name: str, default: int | None) -> object:
    """A column of the trace, or what its absence means."""
    if name not in facts.column_names:
        return default
    column = facts[name].combine_chunks()
    return column if default is None else column.fill_null(default)
