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

    def get_cached_block(self, block_hash: int) -> int | None:
        return self._first.get(block_hash)

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
        counts, hashes = self.ref_counts, self.hashes
        for block_id in taken:
            counts[block_id] = 1
            if hashes[block_id] is not None:
                self.forget(block_id)
        return taken

    def cache(self, block_id: int, block_hash: int) -> None:
        """Let the block be found by the hash of its content."""
        self.hashes[block_id] = block_hash
        self.num_cached += 1
        if self._first.setdefault(block_hash, block_id) != block_id:
            self._later.setdefault(block_hash, {})[block_id] = None

    def forget(self, block_id: int) -> None:
        """Take the block's hash away; other blocks with the same hash keep it."""
        block_hash = self.hashes[block_id]
        if block_hash is None:
            return
        self.hashes[block_id] = None
        self.num_cached -= 1
        later = self._later.get(block_hash)
        if later is None:
            del self._first[block_hash]
            return
        if self._first[block_hash] == block_id:
            block_id = self._first[block_hash] = next(iter(later))
        del later[block_id]
        if not later:
            del self._later[block_hash]

    def free_blocks(self, block_ids: Iterable[int]) -> None:
        """Drop one reference to each; the first freed of its kind is the first handed out."""
        counts, hashes = self.ref_counts, self.hashes
        bare: list[int] = []
        hashed: list[int] = []
        for block_id in block_ids:
            counts[block_id] -= 1
            if counts[block_id] == 0:
                (bare if hashes[block_id] is None else hashed).append(block_id)
        if bare:
            self.free_queue.prepend_n(bare)
        if hashed:
            self.free_queue.append_n(hashed)
        self.num_free += len(bare) + len(hashed)

    def reset_prefix_cache(self) -> bool:
        """Forget every hash. Refused (False) while any block is held."""
        if self.num_free != self.num_gpu_blocks - 1:
            return False
        self._first.clear()
        self._later.clear()
        self.num_cached = 0
        self.hashes = [None] * self.num_gpu_blocks
        return True
