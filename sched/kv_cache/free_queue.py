"""The free blocks in the order in which they will be handed out.

vLLM keeps one linked list and touches it in three places: blocks without a hash return to its
head, hashed ones to its tail, and a prefix hit takes a block out of the middle. Hits only ever
take blocks that came back through the tail, so the list is kept as two:

    head  [ front: a stack, its top is the head | back: insertion order, oldest first ]  tail
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class FreeBlockQueue:
    """Order is exact: `popleft_n` hands out the very ids vLLM's list would."""

    def __init__(self, block_ids: Iterable[int]) -> None:
        self._front = list(block_ids)[::-1]
        self._back: OrderedDict[int, None] = OrderedDict()

    def popleft_n(self, count: int) -> list[int]:
        front = self._front
        if count <= len(front):
            taken = front[: -count - 1 : -1]
            del front[len(front) - count :]
            return taken
        taken = front[::-1]
        front.clear()
        pop = self._back.popitem
        taken.extend(pop(last=False)[0] for _ in range(count - len(taken)))
        return taken

    def remove(self, block_id: int) -> None:
        """Take a hit block out of the middle; it must have come back through the tail."""
        del self._back[block_id]

    def prepend_n(self, block_ids: list[int]) -> None:
        """Put blocks before the head, the first of them becoming the new head."""
        self._front.extend(reversed(block_ids))

    def append_n(self, block_ids: list[int]) -> None:
        self._back.update(dict.fromkeys(block_ids))

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._front)
        yield from self._back
