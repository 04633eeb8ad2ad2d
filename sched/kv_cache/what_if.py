"""A block pool one may spend from without spending: answers change, the pool does not.

Holds only what differs from the pool underneath: blocks taken and hit, names lost and gained.
Costs as much as is done on it, whatever the size of the pool. A block is told apart by its table
and its index there, for it may have no number.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from schedbench.sched.kv_cache.block_table import Hit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedbench.sched.kv_cache.block_pool import BlockPool
    from schedbench.sched.kv_cache.block_table import BlockTable, Run

Block: TypeAlias = "tuple[BlockTable, int]"


class WhatIfPool:
    """The part of `BlockPool` that admissions use."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.num_free = pool.num_free
        self._references: dict[Block, int] = {}  # where they changed
        self._evicted: set[Block] = set()  # blocks whose name in the pool was lost
        self._named: dict[int, list[Run]] = {}  # blocks that got a name here
        self._bare: list[int] = []  # ids freed here, before the pool's own; the last is the head
        self._own_bare: Iterator[int] = iter(pool.free_queue.bare())
        self._num_own_bare = 0 if pool.is_numbered else pool.num_bare
        self._own: Iterator[Block] = iter(pool.free_queue.named())
        self._hit: set[Block] = set()  # of these, not there any more
        self._tail: dict[Block, None] = {}  # freed here with a name, behind the pool's own

    @property
    def _is_untouched(self) -> bool:
        """Whether nothing was spent yet, so that the pool itself may answer."""
        return not (self._references or self._evicted or self._named)

    def cached_prefix(self, stretches: Iterable[range]) -> Hit:
        if self._is_untouched:
            return self._pool.cached_prefix(stretches)
        hit = Hit()
        for name in chain.from_iterable(stretches):
            run = next(self._carriers(name), None)
            if run is None:
                break
            hit.add(*run)
        return hit

    def _carriers(self, name: int) -> Iterator[Run]:
        for table, index, length in self._pool.carriers(name):
            if (table, index) not in self._evicted:
                yield table, index, length
        yield from self._named.get(name, ())

    def num_free_among(self, hit: Hit) -> int:
        if self._is_untouched:
            return self._pool.num_free_among(hit)
        blocks = ((table, first + i) for table, first, length in hit.runs for i in range(length))
        return sum(not self._num_references(*block) for block in blocks)

    def _num_references(self, table: BlockTable, index: int) -> int:
        changed = self._references.get((table, index))
        return table.num_references(index) if changed is None else changed

    def borrow(self, table: BlockTable, hit: Hit) -> None:
        for owner, first, length in hit.runs:
            for index in range(first, first + length):
                before, block = self._num_references(owner, index), (owner, index)
                self._references[block] = before + 1
                if not before:
                    self.num_free -= 1
                    self._hit.add(block)
                    self._tail.pop(block, None)
        table.borrow(hit)

    def get_new_blocks(self, count: int) -> list[int]:
        self.num_free -= count
        return [self._next_in_queue() for _ in range(count)]

    def take(self, count: int) -> None:
        bare = min(count, self._num_own_bare)
        self._num_own_bare -= bare
        self.num_free -= bare
        self.get_new_blocks(count - bare)

    def _next_in_queue(self) -> int:
        if self._bare:
            return self._bare.pop()
        if self._num_own_bare:
            self._num_own_bare -= 1
            return 0
        block_id = next(self._own_bare, None)
        if block_id is not None:
            return block_id
        block = next((each for each in self._own if each not in self._hit), None)
        if block is None:
            block = next(iter(self._tail))
            del self._tail[block]
            for runs in self._named.values():
                runs[:] = [run for run in runs if run[:2] != block]
        self._evicted.add(block)
        table, index = block
        return table.ids[index] if table.ids else 0

    def cache(self, table: BlockTable, stretches: Iterable[range]) -> None:
        for name in chain.from_iterable(stretches):
            run = (table.copied_from or table, table.num_named, 1)
            self._named.setdefault(name, []).append(run)
            table.num_named += 1

    def free(self, table: BlockTable) -> int:
        before = self.num_free
        bare = []
        for place in reversed(range(len(table.ids))):
            owner, index = block = table.owner(place)
            left = self._num_references(owner, index) - 1
            self._references[block] = left
            if left:
                continue
            self.num_free += 1
            if place < table.num_named and index not in owner.forgotten:
                self._tail[block] = None
            else:
                bare.append(table.ids[place])
        self._bare += reversed(bare)
        return self.num_free - before
