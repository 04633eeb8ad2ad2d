"""What executes a pass: the seam between deciding and timing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput

Kind = Literal["decode", "prefill", "mixed", "empty"]
Source = Literal["clock", "model", "recorded", "measured"]


@dataclass(slots=True)
class PassResult:
    """How long a pass took. `duration_ns` is what the simulated clock advances by."""

    duration_ns: int
    source: Source = "clock"
    device_ns: int | None = None
    host_ns: int | None = None
    graph: str | None = None  # which captured graph ran it ("full"); None: none did
    tokens: Mapping[str, int] | None = None  # the model's own, for checks; decides nothing


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """What a run's manifest says about its source of time."""

    name: str
    source: Source
    description: str
    details: Mapping[str, object] = field(default_factory=dict)


class Runner(Protocol):
    """Executes every pass in the order in which they were scheduled."""

    needs_block_ids: bool  # whether it looks into block tables

    def open(self, config: SchedulerConfig) -> RunnerInfo:
        """Get ready for passes of this configuration; may allocate or load."""
        ...

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        """Run one pass, empty ones included."""
        ...

    def close(self) -> None:
        """Let go of what `open` took."""
        ...


@runtime_checkable
class TellsNotes(Protocol):
    """A runner that knows something a reader of its results has to know."""

    def notes(self) -> list[str]:
        """Sentences, once the passes are done."""
        ...


def kind_of(scheduler_output: SchedulerOutput) -> Kind:
    """What a pass consists of: prompt tokens, one token each, both or nothing."""
    if scheduler_output.prefills:
        return "mixed" if scheduler_output.decode_tokens else "prefill"
    return "decode" if scheduler_output.decode_tokens else "empty"
