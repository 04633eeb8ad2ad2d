"""One pass: the state it found, what it decided, the state it left."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Standing:
    """A request where it stands. Counts of tokens and blocks."""

    name: str
    status: str
    computed: int
    known: int
    blocks: int
    priority: int


@dataclass(frozen=True, slots=True)
class State:
    """The collections in their order, and the pool. `waiting` is cut to its head; see `counts`."""

    running: tuple[Standing, ...]
    skipped_waiting: tuple[Standing, ...]
    waiting: tuple[Standing, ...]
    counts: dict[str, int]  # of each collection
    kv_blocks_used: int
    kv_blocks_free: int
    seats_held_by_sessions: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of one request; tokens it got, and what is left of budget and pool after it."""

    loop: str
    name: str
    verdict: str
    kind: str
    tokens: int
    computed: int  # before the grant
    known: int
    budget_left: int | None
    kv_blocks_free: int
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OnePass:
    """All that is known of a pass. `row` is its row of the pass log; `came` what it brought."""

    index: int
    before: State
    decisions: tuple[Decision, ...]
    after: State
    row: dict[str, Any]
    limits: dict[str, int]
    came: dict[str, Any]
