"""A block pool one may spend from without spending: answers change, the pool does not.

Holds only what differs from the pool underneath: blocks taken and hit, names lost and gained.
Costs as much as is done on it, whatever the size of the pool.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from schedbench.sched.kv_cache.block_table import BlockTable, Hit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedbench.sched.kv_cache.block_pool import BlockPool
    from schedbench.sched.kv_cache.block_table import Run


class WhatIfPool:
    """The part of `BlockPool` that admissions use."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.num_free = pool.num_free
        self._references: Counter[int] = Counter()  # by block, those that came and went here
        self._taken: set[int] = set()  # blocks that were handed out here
        self._bare: set[int] = set()  # blocks whose name was lost
        self._cached: dict[int, Run] = {}  # name -> block that gained it here
        self._head: deque[int] = deque()  # freed here, before the pool's own
        self._own: Iterator[int] = iter(pool.free_queue)
        self._tail: deque[int] = deque()

    def cached_prefix(self, stretches: Iterable[range]) -> Hit:
        hit = Hit()
        for name in (name for names in stretches for name in names):
            run = self._carrier(name)
            if run is None:
                break
            hit.add(*run)
        return hit

    def _carrier(self, name: int) -> Run | None:
        for table, first, length in self._pool.carriers(name):
            if table.ids[first] not in self._bare:
                return table, first, length
        return self._cached.get(name)

    def num_free_among(self, hit: Hit) -> int:
        return sum(
            self._is_free(table, index)
            for table, first, length in hit.runs
            for index in range(first, first + length)
        )

    def _is_free(self, table: BlockTable, index: int) -> bool:
        here = self._references[table.ids[index]]
        return table.ids[index] not in self._taken and table.num_references(index) + here == 0

    def borrow(self, table: BlockTable, hit: Hit) -> None:
        self.num_free -= self.num_free_among(hit)
        self._references.update(hit.ids)
        table.ids += hit.ids
        table.borrowed = hit.runs
        table.num_borrowed = table.num_hashed = len(hit)

    def get_new_blocks(self, count: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < count:
            block_id = self._next_in_queue()
            if self._references[block_id] <= 0:  # else a hit took it out of the queue
                taken.append(block_id)
        self._taken.update(taken)
        self._bare.update(taken)
        self.num_free -= count
        return taken

    def cache(self, table: BlockTable, stretches: Iterable[range]) -> None:
        for name in (name for names in stretches for name in names):
            self._cached.setdefault(name, (table, table.num_hashed, 1))
            table.num_hashed += 1

    def free(self, table: BlockTable) -> int:
        before = self.num_free
        bare: list[int] = []
        for place, block_id in reversed(list(enumerate(table.ids))):
            owner, index = table.owner(place)
            self._references[block_id] -= 1
            self._taken.discard(block_id)
            if self._is_free(owner, index):
                self.num_free += 1
                is_bare = place >= table.num_hashed or index in owner.forgotten
                (bare if is_bare or block_id in self._bare else self._tail).append(block_id)
        self._head.extendleft(reversed(bare))
        return self.num_free - before

    def _next_in_queue(self) -> int:
        if self._head:
            return self._head.popleft()
        block_id = next(self._own, None)
        return self._tail.popleft() if block_id is None else block_id
