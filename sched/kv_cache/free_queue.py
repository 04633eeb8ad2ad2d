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

from itertools import islice
from typing import TYPE_CHECKING

from schedbench.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FEW_GONE = 1024  # entries of the back that do not count and are not worth a clean-up


class FreeBlockQueue:
    """Order is exact: `popleft_n` hands out the very ids vLLM's list would."""

    def __init__(self, block_ids: Iterable[int]) -> None:
        self._front = list(block_ids)[::-1]
        self._back: list[int] = []
        self._start = 0  # entries of the back that were handed out
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
        return taken + self._from_back(count - len(taken))

    def remove(self, block_id: int) -> None:
        """Take a hit block out of the middle; it must have come back through the tail."""
        self._gone[block_id] = self._gone.get(block_id, 0) + 1
        self._num_gone += 1
        self._clean_up()

    @property
    def num_in_front(self) -> int:
        """Blocks that no hit can take: those without a hash."""
        return len(self._front)

    def hashes_are_gone(self) -> None:
        """Let nothing be hit from here on; the order stays."""
        self._front = list(self)[::-1]
        self._begin_back([])

    def prepend_n(self, block_ids: Sequence[int]) -> None:
        """Put blocks before the head, the first of them becoming the new head."""
        self._front.extend(reversed(block_ids))

    def append_n(self, block_ids: Sequence[int]) -> None:
        self._back.extend(block_ids)

    def _from_back(self, count: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < count:
            some = self._back[self._start : self._start + count - len(taken)]
            if not some:
                raise InvariantError("more blocks are asked for than are free")
            self._start += len(some)
            if self._gone and not self._gone.keys().isdisjoint(some):
                some = [block_id for block_id in some if not self._is_gone(block_id)]
            taken += some
        self._clean_up()
        return taken

    def _is_gone(self, block_id: int) -> bool:
        """Whether the next entry of a block is one to step over; it is done with then."""
        entries = self._gone.get(block_id)
        if entries is None:
            return False
        self._num_gone -= 1
        if entries > 1:
            self._gone[block_id] = entries - 1
        else:
            del self._gone[block_id]
        return True

    def _clean_up(self) -> None:
        """Keep the back no longer than twice what is in it."""
        idle = self._start + self._num_gone
        if idle > FEW_GONE and 2 * idle > len(self._back):
            rest = self._back[self._start :]
            if self._gone:
                rest = [block_id for block_id in rest if not self._is_gone(block_id)]
            self._begin_back(rest)

    def _begin_back(self, block_ids: list[int]) -> None:
        self._back, self._start = block_ids, 0
        self._gone.clear()
        self._num_gone = 0

    def _in_back(self) -> Iterator[int]:
        left = self._gone.copy()
        for block_id in islice(self._back, self._start, None):
            if left.get(block_id):
                left[block_id] -= 1
            else:
                yield block_id

    def __len__(self) -> int:
        return len(self._front) + len(self._back) - self._start - self._num_gone

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._front)
        yield from self._in_back()
