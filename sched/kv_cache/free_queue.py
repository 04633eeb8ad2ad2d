"""The free blocks in the order in which they will be handed out.

vLLM keeps one linked list and touches it in three places: blocks without a name return to its
head, named ones to its tail, and a prefix hit takes a block out of the middle. Hits only ever
take blocks that came back through the tail, so the list is kept as two:

    head  [ front: a stack, its top is the head | back: segments, oldest first ]  tail

A segment is what one table gave back at a time (block_table.py), so that giving back a thousand
blocks is one entry. Where no one asks which block is which, blocks have no numbers: the front is a
count, and every id handed out is 0.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from schedbench.sched.kv_cache.block_table import BlockTable, Run, Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class FreeBlockQueue:
    """Order is exact: the very ids are handed out that vLLM's list would, if blocks have ids."""

    def __init__(self, block_ids: Iterable[int], *, numbered: bool = True) -> None:
        self._front = list(block_ids)[::-1]
        self.is_numbered = numbered
        self.num_in_front = len(self._front)  # blocks that no hit can take: those without a name
        self.back: OrderedDict[Segment, None] = OrderedDict()
        self.unlisted = BlockTable([])  # blocks with a name that no request will look up
        if not numbered:
            self._front.clear()

    def take_bare(self, count: int) -> list[int]:
        """Hand out blocks without a name, up to `count`."""
        count = min(count, self.num_in_front)
        self.num_in_front -= count
        if not self.is_numbered:
            return [0] * count
        front = self._front
        taken = front[: -count - 1 : -1]
        del front[len(front) - count :]
        return taken

    def take_oldest(self, count: int) -> Run:
        """Hand out named blocks that stand together, up to `count`, the last index first.

        Raises KeyError where there are none.
        """
        segment = next(iter(self.back), None)
        if segment is None:
            raise KeyError("the back of the free queue is empty")
        low, high = segment.spans[-1]
        first = max(low, high - count)
        if first > low:
            segment.spans[-1] = (low, first)
        else:
            segment.spans.pop()
            if not segment.spans:
                self._drop(segment)
        return segment.table, first, high - first

    def take_out(self, table: BlockTable, first: int, end: int) -> int:
        """Take hit blocks of a table out of the middle, those that stand there; how many."""
        taken = 0
        for segment in table.segments.copy():
            taken += segment.take_out(first, end)
            if not segment.spans:
                self._drop(segment)
        return taken

    def prepend_n(self, block_ids: Sequence[int]) -> None:
        """Put blocks before the head, the first of them becoming the new head."""
        self.num_in_front += len(block_ids)
        if self.is_numbered:
            self._front.extend(reversed(block_ids))

    def append_n(self, block_ids: Sequence[int]) -> None:
        """Put blocks without a name behind all others of the front."""
        self.num_in_front += len(block_ids)
        if self.is_numbered:
            self._front[:0] = reversed(block_ids)

    def append(self, table: BlockTable, spans: list[tuple[int, int]]) -> None:
        """Put own blocks of a table behind the tail, the last index first."""
        if spans:
            segment = Segment(table, spans)
            table.segments.append(segment)
            self.back[segment] = None

    def append_unlisted(self, count: int) -> None:
        """Put blocks behind the tail whose names no request will look up."""
        last = next(reversed(self.back), None)
        if last is not None and last.table is self.unlisted:
            low, high = last.spans[-1]
            last.spans[-1] = (low, high + count)
        elif count:
            self.append(self.unlisted, [(0, count)])

    def names_are_gone(self) -> None:
        """Let nothing be hit from here on; the order stays."""
        self.num_in_front = len(self)
        if self.is_numbered:
            self._front = list(self)[::-1]
        for segment in list(self.back):
            self._drop(segment)
            segment.table.drop_if_gone()

    def _drop(self, segment: Segment) -> None:
        segment.table.segments.remove(segment)
        del self.back[segment]

    def __len__(self) -> int:
        return self.num_in_front + sum(map(len, self.back))

    def __iter__(self) -> Iterator[int]:
        yield from self.bare() if self.is_numbered else [0] * self.num_in_front
        for segment in self.back:
            yield from segment.ids()

    def bare(self) -> Iterable[int]:
        """Ids of the blocks without a name, if they have some, in the order of the queue."""
        return reversed(self._front)

    def named(self) -> Iterator[tuple[BlockTable, int]]:
        """Blocks with a name, each by its table and index, in the order that follows."""
        for segment in self.back:
            for low, high in reversed(segment.spans):
                for index in range(high - 1, low - 1, -1):
                    yield segment.table, index
