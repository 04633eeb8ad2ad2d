"""Blocks of the KV cache: who holds each, which hash it carries, which is free.

Block 0 is the null block and is never handed out, so `num_gpu_blocks - 1` are usable.
Several blocks may carry the same hash (vLLM does not deduplicate); a lookup answers with the
one that got it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.errors import InvariantError
from schedbench.sched.kv_cache.free_queue import FreeBlockQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class BlockPool:
    """Reference counts, hashes and the free queue; knows nothing of requests."""

    def __init__(self, num_gpu_blocks: int) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.free_queue = FreeBlockQueue(range(1, num_gpu_blocks))
        self.num_free = num_gpu_blocks - 1
        self.ref_counts = [0] * num_gpu_blocks
        self.hashes: list[int | None] = [None] * num_gpu_blocks
        self._first: dict[int, int] = {}  # hash -> the block that got it first
        self._later: dict[int, dict[int, None]] = {}  # hash -> blocks that got it since, in order
        self.num_cached = 0  # blocks that carry a hash, free or held

    @property
    def num_bare(self) -> int:
        """Of the free blocks, those without a hash; they are handed out first."""
        return self.free_queue.num_in_front

    def cached_prefix(self, block_hashes: Iterable[int]) -> list[int]:
        """Blocks that carry these hashes, up to the first hash that none carries."""
        found: list[int] = []
        for block_id in map(self._first.get, block_hashes):
            if block_id is None:
                break
            found.append(block_id)
        return found

    def blocks_with(self, block_hash: int) -> Iterator[int]:
        """All blocks that carry the hash, in the order in which they got it."""
        if block_hash in self._first:
            yield self._first[block_hash]
            yield from self._later.get(block_hash, ())

    def num_free_among(self, block_ids: Sequence[int]) -> int:
        """How many of these stand in the free queue: a hit on them costs a free block."""
        counts = self.ref_counts
        return sum(counts[block_id] == 0 for block_id in block_ids)

    def touch(self, block_ids: Iterable[int]) -> None:
        """Add a reference to each block, taking free ones out of the free queue."""
        counts = self.ref_counts
        for block_id in block_ids:
            if counts[block_id] == 0:
                self.free_queue.remove(block_id)
                self.num_free -= 1
            counts[block_id] += 1

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
        taken = self.free_queue.popleft_n(count)
        self.num_free -= count
        counts = self.ref_counts
        for block_id in taken:
            counts[block_id] = 1
        if self.num_cached:
            self.forget(taken)
        return taken

    def cache(self, block_ids: Sequence[int], block_hashes: Sequence[int]) -> None:
        """Let blocks be found by the hashes of their content."""
        hashes, first, later = self.hashes, self._first, self._later
        self.num_cached += len(block_ids)
        for block_id, block_hash in zip(block_ids, block_hashes, strict=True):
            hashes[block_id] = block_hash
            if first.setdefault(block_hash, block_id) != block_id:
                later.setdefault(block_hash, {})[block_id] = None

    def forget(self, block_ids: Iterable[int]) -> None:
        """Take the hashes of blocks away; others with the same hash keep it."""
        hashes, first, later = self.hashes, self._first, self._later
        forgotten = 0
        for block_id in block_ids:
            block_hash = hashes[block_id]
            if block_hash is None:
                continue
            hashes[block_id] = None
            forgotten += 1
            if later and block_hash in later:
                self._forget_one_of_several(block_id, block_hash)
            else:
                del first[block_hash]
        self.num_cached -= forgotten

    def _forget_one_of_several(self, block_id: int, block_hash: int) -> None:
        later = self._later[block_hash]
        if self._first[block_hash] == block_id:
            block_id = self._first[block_hash] = next(iter(later))
        del later[block_id]
        if not later:
            del self._later[block_hash]

    def free_blocks(self, block_ids: Sequence[int], num_hashed: int | None = None) -> None:
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
        return self.hashes[block_id] is None

    def _let_go(self, block_ids: Sequence[int]) -> Sequence[int]:
        """Drop one reference to each; those to which it was the last one."""
        counts = self.ref_counts
        if max(map(counts.__getitem__, block_ids), default=1) == 1:
            for block_id in block_ids:
                counts[block_id] = 0
            return block_ids
        freed = []
        for block_id in block_ids:
            count = counts[block_id] = counts[block_id] - 1
            if not count:
                freed.append(block_id)
        return freed

    def reset_prefix_cache(self) -> bool:
        """Forget every hash. Refused (False) while any block is held."""
        if self.num_free != self.num_gpu_blocks - 1:
            return False
        self._first.clear()
        self._later.clear()
        self.num_cached = 0
        self.hashes = [None] * self.num_gpu_blocks
        self.free_queue.hashes_are_gone()
        return True
