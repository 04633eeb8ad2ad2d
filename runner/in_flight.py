"""A pass between its schedule and its fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.runner.api import PassResult
    from schedbench.runner.record import FirstHalf
    from schedbench.sched.output import SchedulerOutput


@dataclass(slots=True)
class InFlight:
    """A pass that is scheduled and not folded in yet."""

    output: SchedulerOutput
    first_half: FirstHalf
    result: PassResult
    sampled: dict[str, int]
    scheduler_ns: int
    num_put_aside: int = 0  # decodes in it that emit without being listed
    settled: bool = False  # folded in, it ended a transfer or a request

    @property
    def changes_something(self) -> bool:
        """Whether the pass after it may do more than it did itself."""
        output = self.output
        return bool(output.num_scheduled_tokens or output.victims or self.settled)

    def list_decodes(self, request_ids: list[str]) -> None:
        """List decodes that were put aside, as the plain way has them: before the admissions."""
        output = self.output
        output.num_scheduled_tokens = dict.fromkeys(request_ids, 1) | output.num_scheduled_tokens
        output.num_put_aside = self.num_put_aside = 0
        self.sampled = dict.fromkeys(request_ids, 1) | self.sampled
