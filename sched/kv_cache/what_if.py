"""A block pool one may spend from without spending: answers change, the pool does not.

Holds only what differs from the pool underneath: references added, blocks handed out, hashes
gained and lost. Costs as much as is done on it, whatever the size of the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from schedbench.sched.kv_cache.block_pool import BlockPool


class WhatIfPool:
    """The part of `BlockPool` that admissions use."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._order = iter(pool.free_queue)
        self._held: set[int] = set()  # free underneath, held here
        self._gone: set[int] = set()  # hashed underneath, not here
        self._cached: dict[int, int] = {}  # hash -> block, gained here
        self.num_free = pool.num_free

    def get_cached_block(self, block_hash: int) -> int | None:
        for block_id in self._pool.blocks_with(block_hash):
            if block_id not in self._gone:
                return block_id
        return self._cached.get(block_hash)

    def num_free_among(self, block_ids: Sequence[int]) -> int:
        return sum(self._is_free(block_id) for block_id in block_ids)

    def touch(self, block_ids: Iterable[int]) -> None:
        for block_id in block_ids:
            if self._is_free(block_id):
                self._held.add(block_id)
                self.num_free -= 1

    def get_new_blocks(self, count: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < count:
            block_id = next(self._order)
            if block_id not in self._held:
                taken.append(block_id)
        self._held.update(taken)
        self._gone.update(taken)
        self.num_free -= count
        return taken

    def cache(self, block_id: int, block_hash: int) -> None:
        self._cached.setdefault(block_hash, block_id)

    def _is_free(self, block_id: int) -> bool:
        return self._pool.ref_counts[block_id] == 0 and block_id not in self._held
