"""What must hold before a pass writes into the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbench.errors import InvariantError

if TYPE_CHECKING:
    from schedbench.runner.torch.batch import Batch
    from schedbench.runner.torch.engine import Engine


def check_slots(engine: Engine, batch: Batch) -> None:
    """Every token has a slot inside the cache, and none in the null block.

    Raises:
        InvariantError: the scheduler's block tables do not cover what it scheduled.
    """
    slots = engine.builder.slots_of(batch)
    if not len(slots):
        return
    size, limit = engine.limits.block_size, engine.limits.num_blocks * engine.limits.block_size
    if int(slots.min()) < size or int(slots.max()) >= limit:
        raise InvariantError(
            f"a pass writes slots {slots.min()} to {slots.max()}; those of requests are "
            f"{size} to {limit - 1}"
        )


def check_written_blocks(engine: Engine, batch: Batch) -> None:
    """No block is written that two live requests hold: a shared block is computed already.

    Raises:
        InvariantError: a block would be written under another request's eyes.
    """
    table = engine.rows
    table.sweep()
    held = np.concatenate(
        [table.blocks[row, : table.num_blocks[row]] for row in table.row_of.values()]
    )
    counts = np.bincount(held, minlength=engine.limits.num_blocks)
    written = np.unique(engine.builder.slots_of(batch) // engine.limits.block_size)
    shared = written[counts[written] > 1]
    if len(shared):
        raise InvariantError(
            f"blocks {shared[:5].tolist()} are written in this pass and held by several requests"
        )
