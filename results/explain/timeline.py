"""What happened to one request, step by step."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Event(Enum):
    """What a step of a timeline is."""

    ARRIVED = "arrived"
    NEXT_INPUT = "next input"
    INPUT_ENDS = "the session's input ends"
    WAITED = "waited"
    ADMITTED = "admitted"
    RESUMED = "resumed"
    COMPUTED = "prompt computed"
    FIRST_TOKEN = "first token"  # noqa: S105 (a token of text)
    DECODED = "decoded"
    HELD = "held"
    EVICTED = "evicted"
    SEGMENT_DONE = "segment done"
    ENDED = "ended"


@dataclass(slots=True)
class Step:
    """One step: where the request stood, as what, from when to when (ns), in which passes.

    `facts` depends on the event: counts of tokens, names of others. `under`, of a wait: passes and
    ns by the verdict that held the request.
    """

    event: Event
    collection: str
    status: str
    begin_ns: int
    end_ns: int
    first_pass: int | None = None
    last_pass: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    under: dict[str, list[int]] = field(default_factory=dict)

    def lasts(self, first_pass: int, end_ns: int) -> None:
        """Stretch the step to one more pass."""
        if self.first_pass is None:
            self.first_pass = first_pass
        self.last_pass = first_pass
        self.end_ns = end_ns

    def counts(self, name: str, amount: int = 1) -> None:
        self.facts[name] = self.facts.get(name, 0) + amount

    def waits(self, verdict: str, passes: int, ns: int) -> None:
        """Add to the time under a verdict."""
        sums = self.under.setdefault(verdict, [0, 0])
        sums[0] += passes
        sums[1] += ns


@dataclass(frozen=True, slots=True)
class Timeline:
    """One request's life. `facts` is its row of the requests table, or what there is of one."""

    name: str
    steps: tuple[Step, ...]
    facts: dict[str, Any]

    @property
    def waited(self) -> dict[str, list[int]]:
        """Passes and ns in the queues by verdict, over all waits; the longest first."""
        sums: dict[str, list[int]] = {}
        for step in self.steps:
            for verdict, (passes, ns) in step.under.items():
                both = sums.setdefault(verdict, [0, 0])
                both[0] += passes
                both[1] += ns
        return dict(sorted(sums.items(), key=lambda each: -each[1][1]))

    @property
    def waited_ns(self) -> int:
        return sum(ns for _, ns in self.waited.values())
