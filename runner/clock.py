"""Logical time: a pass costs a constant, or a constant and something for each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.errors import UsageError
from schedbench.runner.api import PassResult, RunnerInfo
from schedbench.runner.durations import PASS, TOKEN, parse_duration

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput


@dataclass(frozen=True)
class ClockRunner:
    """`duration = base_ns + per_token_ns * tokens scheduled`; an empty pass costs the base."""

    base_ns: int
    per_token_ns: int = 0
    needs_block_ids = False

    def open(self, config: SchedulerConfig) -> RunnerInfo:  # noqa: ARG002 - any will do
        return RunnerInfo("clock", "clock", self.description)

    @property
    def description(self) -> str:
        """The cost as it is typed."""
        base = f"{self.base_ns / 1e6:g}ms"
        if not self.per_token_ns:
            return f"pass:{base}"
        return f"linear:{base},{self.per_token_ns / 1e6:g}ms"

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        return PassResult(self.duration_of(scheduler_output.total_num_scheduled_tokens))

    def duration_of(self, num_tokens: int) -> int:
        """What a pass of so many tokens takes; nothing else about it matters."""
        return self.base_ns + self.per_token_ns * num_tokens

    def decode_durations(self, num_decodes: int, context_tokens: int, num_passes: int) -> int:
        """How long each of a run of passes takes in which so many requests decode."""
        del context_tokens, num_passes
        return self.duration_of(num_decodes)

    def close(self) -> None:
        """Nothing is held."""


def parse_cost(text: str) -> ClockRunner:
    """Read `--cost`: `pass:1ms`, or `linear:8ms,0.03ms` (base, per token).

    Raises:
        UsageError: another kind, or not as many durations as it takes.
    """
    kind, _, rest = text.partition(":")
    parts = rest.split(",")
    match kind, parts:
        case "pass", [base]:
            return ClockRunner(parse_duration(base, "--cost", PASS))
        case "linear", [base, per_token]:
            return ClockRunner(
                parse_duration(base, "--cost", PASS), parse_duration(per_token, "--cost", TOKEN)
            )
    raise UsageError(
        f"--cost: {text!r} is not understood; write pass:1ms (every pass the same) or "
        "linear:8ms,0.03ms (base, per token)"
    )
