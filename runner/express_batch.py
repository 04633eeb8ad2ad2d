"""What the express way notes while it goes: numbers, packed as they come and looked at later.

A step is a run of passes in which everybody running decodes, or a single pass. Steps are numbered
from 1 in the order in which they were scheduled; time before the first one is step 0's.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.results.run_rows import Integers
    from schedbench.sched.express import Job

MOST_OPENS = 131_072  # counts of blocks opened, by run and pass modulo the block size
MOST_ENDED = 16384

RUN_FIELDS = (
    "place",
    "passes",
    "start_ns",
    "end_ns",
    "duration_ns",
    "decodes",
    "context_tokens",
    "running",
    "waiting",
    "finished",
    "admission_stop",
    "free",
    "bare",
    "cached",
    "freed_finish",
    "scheduler_ns",
    "phase",
    "first_gap_ns",
)
"""A run of decodes. `place`: among the batch's steps. Blocks are those before it, with a pass in
flight those at the end of its first `schedule()`; start, duration and context those of its first
pass. `first_gap_ns`, with a pass in flight: from the start of the first pass to that of the second.
`phase`: of its first pass, with a pass in flight of its second one, modulo the block size."""

PASS_FIELDS = (
    "place",
    "start_ns",
    "end_ns",
    "duration_ns",
    "decodes",
    "context_tokens",
    "in_step",
    "done",
    "running",
    "waiting",
    "finished",
    "admission_stop",
    "cut",
    "free",
    "cached",
    "freed_finish",
    "scheduler_ns",
    "grants_end",
    "ended_waiting",
)
"""A single pass; blocks are those at the end of `schedule()`. `in_step`: decodes that emit, `done`:
prompts whose first token came, `cut`: the budget cut a prompt, `grants_end`: bytes of grants up to
here."""

EVICTION_FIELDS = (
    "place",
    "preempted",
    "preempted_tokens",
    "cancelled",
    "fit",
    "stranded",
    "freed_preempt",
    "running_stop",
)
"""What is said of a single pass if it evicted somebody."""

END_FIELDS = (
    "row",
    "output_tokens",
    "first_scheduled_ns",
    "first_token_ns",
    "finish_ns",
    "cached_tokens",
    "resumed_cached_tokens",
    "preemptions",
    "preempted_tokens",
    "arrival_ns",
    "entered_ns",
    "began",
    "place",
)
"""A request that got its last token in the step at `place`. `entered_ns`: when the replay took it
in; `began`: the pass in which it began to decode, or -1."""

GRANT_FIELDS = ("kind", "row", "new_tokens", "computed")
"""Prompt tokens granted, as the digest takes them."""

pack_run = Struct(f"<{len(RUN_FIELDS)}q").pack
pack_pass = Struct(f"<{len(PASS_FIELDS)}q").pack
pack_end = Struct(f"<{len(END_FIELDS)}q").pack
_grant = Struct(f"<{len(GRANT_FIELDS)}q")
pack_grant, iter_grants = _grant.pack, _grant.iter_unpack


class Batch:
    """Steps since the last flush; `first` is the number of the first of them."""

    def __init__(self, first: int, block_size: int) -> None:
        self.first = first
        self.num_steps = 0
        self.runs, self.passes, self.grants, self.ends = (bytearray() for _ in range(4))
        self.opens = bytearray()  # of each run, how many open a block, by pass modulo block size
        self.durations: dict[int, Integers] = {}  # of a run's passes, by place, where they differ
        self.evictions: list[tuple[int, ...]] = []
        self.victims: dict[int, Sequence[int]] = {}  # rows, by place
        self.ended: list[Job] = []
        self.waits: list[tuple[Job, Any, int, int]] = []  # mark; steps that saw it and let it in
        self.decoded: list[tuple[Job, int, int]] = []  # till evicted: first pass, last step
        self._block_size = block_size
        self._most_steps = max(MOST_OPENS // block_size, 1)

    @property
    def is_full(self) -> bool:
        """Whether it is time to make rows of it."""
        return self.num_steps >= self._most_steps or len(self.ended) >= MOST_ENDED

    def trim(self, next_step: int) -> None:
        """Drop what was noted of a step that did not come to its end: an error, an interrupt.

        Whoever was let in by `next_step` or later was not let in.
        """
        most = self.num_steps
        runs, passes = table(self.runs, RUN_FIELDS), table(self.passes, PASS_FIELDS)
        num_runs, num_passes = (int((each[:, 0] < most).sum()) for each in (runs, passes))
        num_ends = int((table(self.ends, END_FIELDS)[:, -1] < most).sum())
        grants = int(passes[:num_passes, PASS_FIELDS.index("grants_end")].max(initial=0))
        del runs, passes  # they hold on to the bytes
        del self.runs[8 * len(RUN_FIELDS) * num_runs :]
        del self.passes[8 * len(PASS_FIELDS) * num_passes :]
        del self.ends[8 * len(END_FIELDS) * num_ends :]
        del self.ended[num_ends:]
        del self.grants[grants:]
        del self.opens[8 * self._block_size * num_runs :]
        self.durations = {place: each for place, each in self.durations.items() if place < most}
        self.victims = {place: each for place, each in self.victims.items() if place < most}
        self.evictions = [each for each in self.evictions if each[0] < most]
        self.waits = [each for each in self.waits if each[-1] < next_step]

    def steps(self) -> dict[str, Integers]:
        """Arrays by field, a value for each step."""
        runs, passes = table(self.runs, RUN_FIELDS), table(self.passes, PASS_FIELDS)
        evictions = np.array(self.evictions, np.int64).reshape(-1, len(EVICTION_FIELDS))
        of = {
            "running_stop": np.full(self.num_steps, Verdict.LIST_DONE.number),
            "passes": np.ones(self.num_steps, np.int64),
            "phase": np.full(self.num_steps, -1),
        }
        fields_of = ((RUN_FIELDS, runs), (PASS_FIELDS, passes), (EVICTION_FIELDS, evictions))
        for fields, values in fields_of:
            places = values[:, 0]
            for name, column in zip(fields[1:], values.T[1:], strict=True):
                of.setdefault(name, np.zeros(self.num_steps, np.int64))[places] = column
        of["in_step"][runs[:, 0]] = of["decodes"][runs[:, 0]]
        return of


def table(packed: bytearray, fields: Sequence[str]) -> Integers:
    """Packed numbers as an array of shape (rows, fields)."""
    return np.frombuffer(packed, np.int64).reshape(-1, len(fields))


def columns(packed: bytearray, fields: Sequence[str]) -> dict[str, Integers]:
    """Packed numbers as arrays by field."""
    values = np.ascontiguousarray(table(packed, fields).T)
    return dict(zip(fields, values, strict=True))
