"""Passes that no trace made: rows of (tokens, context) on blocks of their own.

For warm-up and profiling. The context is not computed: its blocks hold what they hold, which
takes as long to read.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.errors import UsageError
from schedbench.runner.latency.grid import Limits
from schedbench.sched.request import RequestStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schedbench.runner.shapes import Row
    from schedbench.runner.torch.engine import Engine


@dataclass(frozen=True, slots=True)
class _Names:
    """Block names of one request."""

    serial: int

    def block_hash(self, index: int) -> int:
        """Its own, below zero as no shared name is."""
        return -((self.serial + 1) << 32) + index


@dataclass(slots=True)
class SyntheticRequest:
    """As much of a request as a row needs."""

    request_id: str
    num_computed_tokens: int
    identity: _Names
    status: RequestStatus = RequestStatus.RUNNING


def limits_of(engine: Engine) -> Limits:
    """What the engine can be asked for."""
    limits = engine.limits
    return Limits(
        limits.max_tokens, limits.max_seqs, limits.max_model_len, limits.block_size,
        limits.num_blocks,
    )  # fmt: skip


@contextmanager
def placed(engine: Engine, rows: Sequence[Row]) -> Iterator[dict[str, int]]:
    """Give each row blocks 1, 2, ... in turn; yields tokens to schedule by request id.

    The engine's rows must be empty, and are empty again at the end.

    Raises:
        UsageError: the pass is larger than the engine; the message has the flag and what it takes.
    """
    if refusal := limits_of(engine).refusal(rows):
        raise UsageError(refusal)
    table, size = engine.rows, engine.limits.block_size
    next_block = 1
    scheduled = {}
    for index, (q, ctx) in enumerate(rows):
        request_id = f"synthetic-{index}"
        count = -(-(q + ctx) // size)
        request = SyntheticRequest(request_id, q + ctx, _Names(index))
        table.place(request, range(next_block, next_block + count))
        next_block += count
        scheduled[request_id] = q
    try:
        yield scheduled
    finally:
        for request_id in scheduled:
            table.release(request_id)
