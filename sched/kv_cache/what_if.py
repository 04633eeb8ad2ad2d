"""A block pool one may spend from without spending: answers change, the pool does not.

Holds only what differs from the pool underneath: references, hashes, blocks freed and taken.
Costs as much as is done on it, whatever the size of the pool.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from schedbench.sched.kv_cache.block_pool import BlockPool


class WhatIfPool:
    """The part of `BlockPool` that admissions use."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.num_free = pool.num_free
        self._refs: dict[int, int] = {}  # block -> references, where they changed
        self._bare: set[int] = set()  # blocks whose hash was lost
        self._cached: dict[int, int] = {}  # hash -> block that gained it here
        self._head: deque[int] = deque()  # freed here, before the pool's own
        self._own: Iterator[int] = iter(pool.free_queue)
        self._tail: deque[int] = deque()

    def cached_prefix(self, block_hashes: Iterable[int]) -> list[int]:
        found: list[int] = []
        for block_hash in block_hashes:
            block_id = self._cached_block(block_hash)
            if block_id is None:
                break
            found.append(block_id)
        return found

    def _cached_block(self, block_hash: int) -> int | None:
        for block_id in self._pool.blocks_with(block_hash):
            if block_id not in self._bare:
                return block_id
        return self._cached.get(block_hash)

    def num_free_among(self, block_ids: Sequence[int]) -> int:
        return sum(self._ref_count(block_id) == 0 for block_id in block_ids)

    def touch(self, block_ids: Iterable[int]) -> None:
        for block_id in block_ids:
            count = self._ref_count(block_id)
            self.num_free -= count == 0
            self._refs[block_id] = count + 1

    def get_new_blocks(self, count: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < count:
            block_id = self._next_in_queue()
            if self._ref_count(block_id) == 0:  # else a hit took it out of the queue
                taken.append(block_id)
                self._refs[block_id] = 1
                self._bare.add(block_id)
        self.num_free -= count
        return taken

    def cache(self, block_ids: Sequence[int], block_hashes: Sequence[int]) -> None:
        for block_id, block_hash in zip(block_ids, block_hashes, strict=True):
            self._cached.setdefault(block_hash, block_id)

    def free_blocks(self, block_ids: list[int], num_hashed: int | None = None) -> None:
        del num_hashed  # what was hashed here does not count
        bare: list[int] = []
        for block_id in reversed(block_ids):
            count = self._refs[block_id] = self._ref_count(block_id) - 1
            if count == 0:
                self.num_free += 1
                is_hashed = self._pool.hash_of(block_id) is not None and block_id not in self._bare
                (self._tail if is_hashed else bare).append(block_id)
        self._head.extendleft(reversed(bare))

    def _next_in_queue(self) -> int:
        if self._head:
            return self._head.popleft()
        block_id = next(self._own, None)
        return self._tail.popleft() if block_id is None else block_id

    def _ref_count(self, block_id: int) -> int:
        count = self._refs.get(block_id)
        return self._pool.ref_count(block_id) if count is None else count
