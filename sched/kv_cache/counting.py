"""The KV cache in counts, for traces in which no request shares a prefix with another.

Such a request can only ever hit its own blocks, and only after it was evicted. So it does not
matter which block is which: how many are free, how many of those carry a hash, and in what order
the hashed ones will be taken is all that decides. The free queue becomes

    head  [ bare: a number | hashed: segments, oldest first ]  tail

where a segment is a number of blocks that nobody will ask for again, or the blocks of an evicted
request, by index, in the order in which they will be taken (tail first). Every answer is that of
`KVCacheManager` with the block ids renamed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbench.errors import InvariantError
from schedbench.sched.kv_cache.manager import which_term_is_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.kv_cache.manager import SlotDemand
    from schedbench.sched.request import Request
    from schedbench.sched.verdicts import Verdict


@dataclass(slots=True)
class Segment:
    """Hashed free blocks that stand together: `size` of them, of an evicted request or nobody's."""

    size: int
    indices: deque[int] | None = None  # of the request's blocks, the next one taken first


class CountingPool:
    """Free and hashed blocks in numbers; the part of `BlockPool` that others look at."""

    def __init__(self, num_gpu_blocks: int) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.num_free = num_gpu_blocks - 1
        self.num_bare = num_gpu_blocks - 1  # of the free ones, those without a hash
        self.num_cached = 0  # blocks with a hash, free or held
        self.segments: deque[Segment] = deque()

    def what_if(self, memo: dict[int, Segment]) -> CountingPool:
        """Return a copy that can be spent; `memo` tells a segment's copy by the segment's id."""
        other = CountingPool(self.num_gpu_blocks)
        other.num_free, other.num_bare = self.num_free, self.num_bare
        other.num_cached = self.num_cached
        other.segments.extend([copied(each, memo) for each in self.segments])
        return other

    def take(self, count: int) -> None:
        """Hand out free blocks from the head; what they cached is forgotten.

        Raises:
            InvariantError: more were asked for than are free.
        """
        if count > self.num_free:
            raise InvariantError(f"{count} blocks asked of a pool that has {self.num_free} free")
        self.num_free -= count
        if count <= self.num_bare:
            self.num_bare -= count
            return
        count -= self.num_bare
        self.num_bare = 0
        self.num_cached -= count
        while count:
            segment = self.segments[0]
            taken = min(segment.size, count)
            segment.size -= taken
            count -= taken
            if segment.indices is not None:
                for _ in range(taken):
                    segment.indices.popleft()
            if not segment.size:
                self.segments.popleft()

    def give_back(self, num_bare: int, num_hashed: int) -> None:
        """Take back blocks that nobody will ask for again."""
        self.num_free += num_bare + num_hashed
        self.num_bare += num_bare
        if num_hashed:
            last = self.segments[-1] if self.segments else None
            if last is not None and last.indices is None:
                last.size += num_hashed
            else:
                self.segments.append(Segment(num_hashed))

    def give_back_evicted(self, num_bare: int, num_hashed: int) -> Segment | None:
        """Take back an evicted request's blocks, which it may hit when it returns."""
        self.num_free += num_bare + num_hashed
        self.num_bare += num_bare
        if not num_hashed:
            return None
        segment = Segment(num_hashed, deque(range(num_hashed - 1, -1, -1)))
        self.segments.append(segment)
        return segment


class CountingKVCache:
    """`KVCacheManager` in counts. A request's `num_blocks` stands for its block table."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.pool = CountingPool(config.num_gpu_blocks)
        self.block_size = config.block_size
        self.max_model_len = config.max_model_len
        self.enable_prefix_caching = config.enable_prefix_caching
        self.evicted: dict[str, list[Segment]] = {}  # by request id, oldest first

    def what_if(self) -> CountingKVCache:
        """Return a copy that can be spent without touching this one."""
        other = CountingKVCache(self.config)
        memo: dict[int, Segment] = {}
        other.pool = self.pool.what_if(memo)
        other.evicted = {
            request_id: [copied(each, memo) for each in segments]
            for request_id, segments in self.evicted.items()
        }
        return other

    def get_computed_blocks(self, request: Request) -> Sequence[int]:
        """Indices of the request's own blocks that are cached, from its first one on."""
        segments = self.evicted.get(request.request_id)
        if not segments or not self.enable_prefix_caching:
            return ()
        return range(own_prefix(segments, (request.num_tokens - 1) // self.block_size))

    def shortage(self, request: Request, demand: SlotDemand) -> Verdict | None:
        """Name the term that leaves an admission short of blocks; None if there is room."""
        free = self.pool.num_free - len(demand.hit)  # a hit is free as long as its owner waits
        held = request.num_blocks + len(demand.hit)
        slots = self._computed(request, demand) + demand.num_new_tokens
        return which_term_is_short(
            self.config,
            demand,
            free=free,
            need=max(self.blocks_for(slots) - held, 0),
            whole=self.blocks_for(request.num_tokens) - held,
        )

    def admit(self, request: Request, demand: SlotDemand) -> None:
        """Take hits and new blocks for a request that `shortage` found room for."""
        total = self._computed(request, demand) + demand.num_new_tokens
        if demand.hit:
            take_own(self.pool, self.evicted[request.request_id], range(len(demand.hit)))
            request.num_blocks = request.num_cached_blocks = len(demand.hit)
        self._grow(request, total)
        self.cache_blocks(request, min(total, request.num_tokens))

    def allocate_slots(self, request: Request, num_new_tokens: int) -> list[int] | None:
        """Room for a running request's next tokens, or None if blocks are short."""
        total = request.num_computed_tokens + num_new_tokens
        if self.blocks_for(total) - request.num_blocks > self.pool.num_free:
            return None
        self._grow(request, total)
        if self.enable_prefix_caching:
            self.cache_blocks(request, min(total, request.num_tokens))
        return []

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Hash the blocks that `num_tokens` fill and that carry no hash yet."""
        full = num_tokens // self.block_size
        if self.enable_prefix_caching and full > request.num_cached_blocks:
            self.pool.num_cached += full - request.num_cached_blocks
            request.num_cached_blocks = full

    def free(self, request: Request) -> int:
        """Return a request's blocks; how many became free. An evicted one may hit its own again."""
        num_hashed, num_blocks = request.num_cached_blocks, request.num_blocks
        request.num_blocks = request.num_cached_blocks = 0
        if request.is_finished:
            self._forget(request)
            self.pool.give_back(num_blocks - num_hashed, num_hashed)
            return num_blocks
        segment = self.pool.give_back_evicted(num_blocks - num_hashed, num_hashed)
        if segment is not None:
            self.evicted.setdefault(request.request_id, []).append(segment)
        return num_blocks

    def take_blocks(self, request: Request) -> list[int]:
        """Not to be had in counts: only a connector asks for it."""
        raise InvariantError(f"{request!r}: blocks are counted, not numbered")

    def reset_prefix_cache(self) -> bool:
        """Forget all hashes; False while any block is held."""
        if self.pool.num_free != self.pool.num_gpu_blocks - 1:
            return False
        self.pool.num_bare = self.pool.num_free
        self.pool.num_cached = 0
        self.pool.segments.clear()
        self.evicted.clear()
        return True

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold so many tokens, the context's length at most."""
        return -(-min(num_tokens, self.max_model_len) // self.block_size)

    def _computed(self, request: Request, demand: SlotDemand) -> int:
        return request.num_computed_tokens + len(demand.hit) * self.block_size

    def _grow(self, request: Request, num_tokens: int) -> None:
        count = self.blocks_for(num_tokens) - request.num_blocks
        if count > 0:
            self.pool.take(count)
            request.num_blocks += count

    def _forget(self, request: Request) -> None:
        """Nobody will ask for a finished request's blocks again."""
        for segment in self.evicted.pop(request.request_id, ()):
            segment.indices = None


def own_prefix(segments: Iterable[Segment], most: int) -> int:
    """Blocks from a request's first one on, `most` of them, that still stand in its segments."""
    cached = {index for segment in segments if segment.indices for index in segment.indices}
    return next((index for index in range(most) if index not in cached), most)


def take_own(pool: CountingPool, segments: Iterable[Segment], hit: Iterable[int]) -> None:
    """Take a request's hit blocks out of the queue; of several with one hash the oldest."""
    wanted = set(hit)
    for segment in segments:
        taken = wanted.intersection(segment.indices or ())
        if taken:
            assert segment.indices is not None
            wanted -= taken
            segment.indices = deque(i for i in segment.indices if i not in taken)
            segment.size = len(segment.indices)
            pool.num_free -= len(taken)
    pool.segments = deque(each for each in pool.segments if each.size)


def copied(segment: Segment, memo: dict[int, Segment]) -> Segment:
    """Return a segment's copy, the same one whenever it is asked for with the same `memo`."""
    found = memo.get(id(segment))
    if found is None:
        indices = None if segment.indices is None else segment.indices.copy()
        found = memo[id(segment)] = Segment(segment.size, indices)
    return found
