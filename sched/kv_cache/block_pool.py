"""Blocks of the KV cache: who holds each, which hash it carries, which is free.

Block 0 is the null block and is never handed out, so `num_gpu_blocks - 1` are usable.
Several blocks may carry the same hash (vLLM does not deduplicate); a lookup answers with the
one that got it first.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from schedbench.errors import InvariantError
from schedbench.sched.kv_cache.free_queue import FreeBlockQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class BlockPool:
    """Who holds blocks, their hashes and the free queue; knows nothing of requests.

    Blocks come and go by hundreds, so that what is done to them is said of all of them at once: of
    a list without repetitions. A block is made bare by `forget` only while it is held, so that all
    free ones in the back of the queue carry a hash, and none in its front.
    """

    def __init__(self, num_gpu_blocks: int) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.free_queue = FreeBlockQueue(range(1, num_gpu_blocks))
        self.num_free = num_gpu_blocks - 1
        self.num_cached = 0  # blocks that carry a hash, free or held
        self._hashes = [0] * num_gpu_blocks  # the newest that each got; lost, if not found below
        self._held = [False] * num_gpu_blocks
        self._shared: dict[int, int] = {}  # of the held ones, references beyond the first
        self._first: dict[int, int] = {}  # hash -> the block that got it first
        self._later: dict[int, dict[int, None]] = {}  # hash -> blocks that got it since, in order

    @property
    def num_bare(self) -> int:
        """Of the free blocks, those without a hash; they are handed out first."""
        return self.free_queue.num_in_front

    def ref_count(self, block_id: int) -> int:
        """How many hold a block."""
        return 1 + self._shared.get(block_id, 0) if self._held[block_id] else 0

    def hash_of(self, block_id: int) -> int | None:
        """The hash that a block carries; None if it is bare."""
        block_hash = self._hashes[block_id]
        is_found = self._first.get(block_hash) == block_id
        is_found = is_found or block_id in self._later.get(block_hash, ())
        return block_hash if is_found else None

    def cached_prefix(self, block_hashes: Iterable[int]) -> list[int]:
        """Blocks that carry these hashes, up to the first hash that none carries."""
        first = self._first
        return [first[each] for each in takewhile(first.__contains__, block_hashes)]

    def blocks_with(self, block_hash: int) -> Iterator[int]:
        """All blocks that carry the hash, in the order in which they got it."""
        if block_hash in self._first:
            yield self._first[block_hash]
            yield from self._later.get(block_hash, ())

    def num_free_among(self, block_ids: Sequence[int]) -> int:
        """How many of these stand in the free queue: a hit on them costs a free block."""
        return len(block_ids) - sum(map(self._held.__getitem__, block_ids))

    def touch(self, block_ids: Iterable[int]) -> None:
        """Add a reference to each block, taking free ones out of the free queue."""
        held, shared = self._held, self._shared
        for block_id in block_ids:
            if held[block_id]:
                shared[block_id] = shared.get(block_id, 0) + 1
            else:
                self.free_queue.remove(block_id)
                self.num_free -= 1
                held[block_id] = True

    def get_new_blocks(self, count: int) -> list[int]:
        """Hand out free blocks; what they cached is forgotten.

        Raises:
            InvariantError: more were asked for than are free. `allocate_slots` answers None
                before it comes to that.
        """
        if count > self.num_free:
            raise InvariantError(
                f"{count} blocks asked of a pool that has {self.num_free} free: "
                "the caller has to compare first"
            )
        num_bare = self.free_queue.num_in_front
        taken = self.free_queue.popleft_n(count)
        self.num_free -= count
        held = self._held
        for block_id in taken:
            held[block_id] = True
        if count > num_bare:
            self._forget(taken[num_bare:])
        return taken

    def cache(self, block_ids: Sequence[int], block_hashes: Sequence[int]) -> None:
        """Let blocks be found by the hashes of their content."""
        self.num_cached += len(block_ids)
        hashes = self._hashes
        for block_id, block_hash in zip(block_ids, block_hashes, strict=True):
            hashes[block_id] = block_hash
        first_ones = list(map(self._first.setdefault, block_hashes, block_ids))
        if first_ones == block_ids:
            return
        later = self._later
        for block_id, block_hash, first in zip(block_ids, block_hashes, first_ones, strict=True):
            if first != block_id:
                later.setdefault(block_hash, {})[block_id] = None

    def forget(self, block_ids: Iterable[int]) -> None:
        """Take the hashes of held blocks away; others with the same hash keep it."""
        self._forget([block_id for block_id in block_ids if not self._is_bare(block_id)])

    def _forget(self, block_ids: list[int]) -> None:
        """As `forget`, for blocks that all carry a hash."""
        first, later = self._first, self._later
        self.num_cached -= len(block_ids)
        hashes = list(map(self._hashes.__getitem__, block_ids))
        if not later or later.keys().isdisjoint(hashes):
            for block_hash in hashes:
                del first[block_hash]
            return
        for block_id, block_hash in zip(block_ids, hashes, strict=True):
            if block_hash in later:
                self._forget_one_of_several(block_id, block_hash)
            else:
                del first[block_hash]

    def _forget_one_of_several(self, block_id: int, block_hash: int) -> None:
        later = self._later[block_hash]
        if self._first[block_hash] == block_id:
            block_id = self._first[block_hash] = next(iter(later))
        del later[block_id]
        if not later:
            del self._later[block_hash]

    def free_blocks(self, block_ids: list[int], num_hashed: int | None = None) -> None:
        """Drop one reference to each, the last block first; bare ones are handed out before others.

        `num_hashed`: the leading blocks that carry a hash, where that is known of all.
        """
        if num_hashed is None:
            block_ids = sorted(block_ids, key=self._is_bare)  # each kind in its order
            num_hashed = len(block_ids) - sum(map(self._is_bare, block_ids))
        bare, hashed = self._let_go(block_ids[num_hashed:]), self._let_go(block_ids[:num_hashed])
        self.free_queue.prepend_n(bare[::-1])
        self.free_queue.append_n(hashed[::-1])
        self.num_free += len(bare) + len(hashed)

    def _is_bare(self, block_id: int) -> bool:
        return self.hash_of(block_id) is None

    def _let_go(self, block_ids: list[int]) -> list[int]:
        """Drop one reference to each; those to which it was the last one."""
        shared = self._shared
        kept = shared.keys() & block_ids
        if kept:
            if kept.issuperset(block_ids[: len(kept)]):  # a prefix, as hits are
                block_ids = block_ids[len(kept) :]
            else:
                block_ids = [block_id for block_id in block_ids if block_id not in kept]
            for block_id in kept:
                shared[block_id] -= 1
                if not shared[block_id]:
                    del shared[block_id]
        held = self._held
        for block_id in block_ids:
            held[block_id] = False
        return block_ids

    def reset_prefix_cache(self) -> bool:
        """Forget every hash. Refused (False) while any block is held."""
        if self.num_free != self.num_gpu_blocks - 1:
            return False
        self._first.clear()
        self._later.clear()
        self.num_cached = 0
        self.free_queue.hashes_are_gone()
        return True
