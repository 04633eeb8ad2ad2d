"""The free blocks in the order in which they will be handed out.

vLLM keeps one linked list and touches it in three places: blocks without a hash return to its
head, hashed ones to its tail, and a prefix hit takes a block out of the middle. Hits only ever
take blocks that came back through the tail, so the list is kept as two:

    head  [ front: a stack, its top is the head | back: oldest first ]  tail

A block that a hit took stays where it is in the back until it is its turn, and is stepped over
then; should it come back meanwhile, it stands there twice, and the earlier place is the one that
does not count.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FEW_GONE = 1024  # entries that do not count and are not worth a clean-up


class FreeBlockQueue:
    """Order is exact: `popleft_n` hands out the very ids vLLM's list would."""

    def __init__(self, block_ids: Iterable[int]) -> None:
        self._front = list(block_ids)[::-1]
        self._back: deque[int] = deque()
        self._gone: dict[int, int] = {}  # how many entries of a block in the back do not count
        self._num_gone = 0

    def popleft_n(self, count: int) -> list[int]:
        front = self._front
        if count <= len(front):
            taken = front[: -count - 1 : -1]
            del front[len(front) - count :]
            return taken
        taken = front[::-1]
        front.clear()
        pop, count = self._back.popleft, count - len(taken)
        if not self._gone:
            taken += [pop() for _ in range(count)]
            return taken
        while count:
            block_id = pop()
            if block_id in self._gone:
                self._step_over(block_id)
            else:
                taken.append(block_id)
                count -= 1
        return taken

    def remove(self, block_id: int) -> None:
        """Take a hit block out of the middle; it must have come back through the tail."""
        self._gone[block_id] = self._gone.get(block_id, 0) + 1
        self._num_gone += 1
        if self._num_gone > FEW_GONE and 2 * self._num_gone > len(self._back):
            self._back = deque(self._in_back())
            self._gone.clear()
            self._num_gone = 0

    @property
    def num_in_front(self) -> int:
        """Blocks that no hit can take: those without a hash."""
        return len(self._front)

    def hashes_are_gone(self) -> None:
        """Let nothing be hit from here on; the order stays."""
        self._front = list(self)[::-1]
        self._back.clear()
        self._gone.clear()
        self._num_gone = 0

    def prepend_n(self, block_ids: Sequence[int]) -> None:
        """Put blocks before the head, the first of them becoming the new head."""
        self._front.extend(reversed(block_ids))

    def append_n(self, block_ids: Sequence[int]) -> None:
        self._back.extend(block_ids)

    def _step_over(self, block_id: int) -> None:
        self._num_gone -= 1
        self._gone[block_id] -= 1
        if not self._gone[block_id]:
            del self._gone[block_id]

    def _in_back(self) -> Iterator[int]:
        left = self._gone.copy()
        for block_id in self._back:
            if left.get(block_id):
                left[block_id] -= 1
            else:
                yield block_id

    def __len__(self) -> int:
        return len(self._front) + len(self._back) - self._num_gone

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._front)
        yield from self._in_back()
