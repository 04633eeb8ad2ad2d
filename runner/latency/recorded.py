"""Recorded time: the passes of a stored run, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from schedbench.errors import UsageError
from schedbench.results.stored_run import StoredRun
from schedbench.runner.api import PassResult, RunnerInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput


@dataclass
class RecordedRunner:
    """Pass i takes `durations_ns[i]`; it must schedule `tokens[i]` tokens, as it did then.

    `starts_ns` are there where a server was recorded: it does not start a pass the moment that it
    could, so the replay follows them (runner/following.py).

    Raises (in `execute`):
        UsageError: the replay left the recorded course, so that its times mean nothing here.
    """

    durations_ns: Sequence[int]
    tokens: Sequence[int] | None = None
    name: str = "recorded"
    starts_ns: Sequence[int] = ()
    needs_block_ids = False

    @classmethod
    def from_run(cls, path: str | Path) -> Self:
        """Take the times of a stored run. Raises RunStoreError where there is none."""
        stored = StoredRun.open(path)
        table = stored.passes(["start_ns", "duration_ns", "tokens_scheduled"])
        if stored.recording is not None:
            _refuse_gaps(stored)
        return cls(
            table.column("duration_ns").to_pylist(),
            table.column("tokens_scheduled").to_pylist(),
            Path(path).name,
            () if stored.recording is None else table.column("start_ns").to_pylist(),
        )

    def open(self, config: SchedulerConfig) -> RunnerInfo:  # noqa: ARG002 - checked pass by pass
        self._next = 0
        description = f"recorded times of {self.name}"
        details = {"passes": len(self.durations_ns), "follows_server": bool(self.starts_ns)}
        return RunnerInfo("recorded", "recorded", description, details)

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        index = self._next
        self._next += 1
        if index >= len(self.durations_ns):
            raise UsageError(
                f"{self.name} has {len(self.durations_ns)} passes and this replay makes more: "
                "recorded times fit only the trace and the flags that they were recorded with"
            )
        tokens = scheduler_output.total_num_scheduled_tokens
        if self.tokens is not None and tokens != self.tokens[index]:
            raise UsageError(
                f"pass {index} schedules {tokens} tokens and {self.tokens[index]} in {self.name}: "
                "recorded times fit only the trace and the flags that they were recorded with"
            )
        return PassResult(self.durations_ns[index], "recorded")

    def close(self) -> None:
        """Nothing is held."""


def _refuse_gaps(stored: StoredRun) -> None:
    """A recording that lost something cannot be followed pass by pass."""
    recording = stored.recording or {}
    lost, reason = recording.get("dropped", {}), recording.get("not_replayable")
    if lost:
        told = ", ".join(f"{count} {what}" for what, count in lost.items())
        raise UsageError(
            f"{stored.path} lost messages ({told}), so its passes cannot be followed; record again "
            "with a larger SCHEDBENCH_RECORD_QUEUE, or replay its trace with a modelled time"
        )
    if reason:
        raise UsageError(
            f"{stored.path}: {reason}, so its passes cannot be followed; replay its trace with a "
            "modelled time"
        )
