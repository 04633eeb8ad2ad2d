"""A block pool one may spend from without spending: answers change, the pool does not.

Holds only what differs from the pool underneath: blocks taken and hit, names lost and gained.
Costs as much as is done on it, whatever the size of the pool.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from schedbench.sched.kv_cache.block_table import Hit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedbench.sched.kv_cache.block_pool import BlockPool
    from schedbench.sched.kv_cache.block_table import BlockTable, Run


class WhatIfPool:
    """The part of `BlockPool` that admissions use."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.num_free = pool.num_free
        self._references: dict[int, int] = {}  # by block, where they changed
        self._evicted: set[int] = set()  # blocks whose name in the pool was lost
        self._named: dict[int, list[Run]] = {}  # blocks that got a name here
        self._bare: list[int] = []  # freed here, before the pool's own; the last is the head
        self._own: Iterator[int] = iter(pool.free_queue)
        self._hit: set[int] = set()  # of these, not there any more
        self._tail: dict[int, None] = {}  # freed here with a name, behind the pool's own

    def cached_prefix(self, stretches: Iterable[range]) -> Hit:
        hit = Hit()
        for name in chain.from_iterable(stretches):
            run = next(self._carriers(name), None)
            if run is None:
                break
            hit.add(*run)
        return hit

    def _carriers(self, name: int) -> Iterator[Run]:
        for table, index, length in self._pool.carriers(name):
            if table.ids[index] not in self._evicted:
                yield table, index, length
        yield from self._named.get(name, ())

    def num_free_among(self, hit: Hit) -> int:
        blocks = ((table, first + i) for table, first, length in hit.runs for i in range(length))
        return sum(not self._num_references(*block) for block in blocks)

    def _num_references(self, table: BlockTable, index: int) -> int:
        return self._references.get(table.ids[index], table.num_references(index))

    def borrow(self, table: BlockTable, hit: Hit) -> None:
        for owner, first, length in hit.runs:
            for index in range(first, first + length):
                before, block_id = self._num_references(owner, index), owner.ids[index]
                self._references[block_id] = before + 1
                if not before:
                    self.num_free -= 1
                    self._hit.add(block_id)
                    self._tail.pop(block_id, None)
        table.borrow(hit)

    def get_new_blocks(self, count: int) -> list[int]:
        taken = [self._next_in_queue() for _ in range(count)]
        self._references.update(dict.fromkeys(taken, 1))
        self._evicted.update(taken)
        self.num_free -= count
        return taken

    def _next_in_queue(self) -> int:
        if self._bare:
            return self._bare.pop()
        block_id = next((each for each in self._own if each not in self._hit), None)
        if block_id is None:
            block_id = next(iter(self._tail))
            del self._tail[block_id]
            for runs in self._named.values():
                runs[:] = [run for run in runs if run[0].ids[run[1]] != block_id]
        return block_id

    def cache(self, table: BlockTable, stretches: Iterable[range]) -> None:
        for name in chain.from_iterable(stretches):
            self._named.setdefault(name, []).append((table, table.num_named, 1))
            table.num_named += 1

    def free(self, table: BlockTable) -> int:
        before = self.num_free
        bare = []
        for place in reversed(range(len(table.ids))):
            owner, index = table.owner(place)
            left = self._num_references(owner, index) - 1
            self._references[table.ids[place]] = left
            if left:
                continue
            self.num_free += 1
            if place < table.num_named and index not in owner.forgotten:
                self._tail[table.ids[place]] = None
            else:
                bare.append(table.ids[place])
        self._bare += reversed(bare)
        return self.num_free - before
