"""What the paranoid runner looks at before a pass writes into the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbench.errors import InvariantError

if TYPE_CHECKING:
    from schedbench.runner.torch.batch import Batch
    from schedbench.runner.torch.engine import Engine


def check_written_blocks(engine: Engine, batch: Batch) -> None:
    """A block is written by the one request that it was allocated for.

    Others may hold it even while it is written, when they found it by its hash in this very pass;
    but for each of them it lies whole within the tokens that count as computed, so that they only
    ever read it.

    Raises:
        InvariantError: two requests write one block, or one writes what another still would.
    """
    table, size = engine.rows, engine.limits.block_size
    table.sweep()
    written = engine.builder.slots_of(batch) // size
    writer = np.repeat(np.arange(batch.num_seqs), batch.q)
    pairs = np.unique(np.stack([written, writer]), axis=1)
    twice = pairs[0][1:][pairs[0][1:] == pairs[0][:-1]]
    if len(twice):
        raise InvariantError(f"blocks {twice[:5].tolist()} are written by two requests in a pass")
    writer_of = dict(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    for request_id, row in table.row_of.items():
        request = table.requests[row]
        assert request is not None
        whole = request.num_computed_tokens // size
        for block in table.blocks[row, whole : table.num_blocks[row]].tolist():
            other = writer_of.get(block)
            if other is not None and batch.request_ids[other] != request_id:
                raise InvariantError(
                    f"block {block} is written by request {batch.request_ids[other]}, and "
                    f"{request_id} holds it uncomputed"
                )
