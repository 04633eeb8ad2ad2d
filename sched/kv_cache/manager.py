"""The KV cache as the scheduler sees it: hits, room, slots.

A request's blocks, cut by what they hold:

    |<- num_computed_tokens ->|<- hit ->|<- new ->|<- lookahead ->|
    |<----- block_ids ------->|<------ what allocate_slots adds ----->|

A hit is computed already but counts as needed while its block stands in the free queue: it saves
computing, not free blocks. Blocks get their hash when they are allocated, before anything in them
is computed, so that a later admission of the same pass hits them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from schedbench.sched.kv_cache.block_pool import BlockPool
from schedbench.sched.kv_cache.block_table import BlockTable, Hit
from schedbench.sched.kv_cache.what_if import WhatIfPool
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request


@dataclass(slots=True)
class SlotDemand:
    """What an admission asks of the pool, in tokens and blocks."""

    num_new_tokens: int
    hit: Hit | Sequence[int] = ()  # blocks
    num_external_tokens: int = 0  # held elsewhere, to be loaded
    lookahead_tokens: int = 0
    headroom_blocks: int = 0  # the watermark, where it applies
    reserved_blocks: int = 0  # what unfinished prefills need, where an asynchronous load asks
    caches: bool = True  # not before an asynchronous load has arrived


def which_term_is_short(
    need: int, whole: int, free: int, headroom: int, reserved: int = 0, *, whole_must_fit: bool
) -> Verdict | None:
    """Name the first term of an admission that asks for more than the free blocks.

    Args:
        need: new blocks for this chunk.
        whole: new blocks for all the request's known tokens.
        free: free blocks, less those that the request hits.
        headroom: the watermark, where it applies.
        reserved: what an asynchronous load leaves to unfinished prefills.
        whole_must_fit: whether the whole sequence must fit.
    """
    if need > free:
        return Verdict.KV_BLOCKS_SHORT
    most = need
    if whole_must_fit:
        if whole > free:
            return Verdict.KV_BLOCKS_SHORT_FULL_SEQUENCE
        most = max(need, whole)
    if most + headroom > free:
        return Verdict.KV_BLOCKS_SHORT_WATERMARK
    if need + headroom > free - reserved:
        return Verdict.KV_BLOCKS_SHORT_RESERVATION
    return None


class KVCacheManager:
    """`allocate_slots` answers None when the pool is short; nothing else can fail."""

    def __init__(self, config: SchedulerConfig, *, numbered: bool = True) -> None:
        self.config = config
        uncached_last = config.behaviour.uncached_fifo and not config.enable_prefix_caching
        self.pool = BlockPool(
            config.num_gpu_blocks, numbered=numbered, uncached_last=numbered and uncached_last
        )
        self.block_size = config.block_size
        self.enable_prefix_caching = config.enable_prefix_caching
        self.max_model_len = config.max_model_len
        self.lookahead_tokens = config.lookahead_tokens

    def what_if(self) -> KVCacheManager:
        """Return a manager that answers as this one would, and leaves this one as it is."""
        other = copy.copy(self)
        other.pool = cast("BlockPool", WhatIfPool(self.pool))  # all that admissions use of one
        return other

    def get_computed_blocks(self, request: Request) -> Hit:
        """Longest cached prefix; at least one token is left to compute.

        A drafter that reads ahead wrote the last block's KV with tokens that may not follow here,
        so that it is computed again, unless hashes cover those tokens.
        """
        if not self.enable_prefix_caching:
            return Hit()
        behind = max(self.config.hash_lookahead_tokens, 1)
        full = (request.num_tokens - behind) // self.block_size
        hit = self.pool.cached_prefix(request.identity.stretches(0, full))
        if hit and self.config.drops_last_block:
            hit.drop_last()
        return hit

    def shortage(self, request: Request, demand: SlotDemand) -> Verdict | None:
        """Name the term that leaves an admission short of blocks; None if there is room."""
        free = self.pool.num_free
        if isinstance(demand.hit, Hit):
            free -= self.pool.num_free_among(demand.hit)
        held = len(request.block_ids) + len(demand.hit)
        slots = self._computed(request, demand) + demand.num_new_tokens + demand.lookahead_tokens
        return which_term_is_short(
            max(self.blocks_for(slots) - held, 0),
            self.blocks_for(request.num_tokens) - held,
            free,
            demand.headroom_blocks,
            demand.reserved_blocks,
            whole_must_fit=self.config.scheduler_reserve_full_isl,
        )

    def admit(self, request: Request, demand: SlotDemand) -> None:
        """Take hits and new blocks for a request that `shortage` found room for."""
        total = self._computed(request, demand) + demand.num_new_tokens
        table = table_of(request)
        if demand.hit and isinstance(demand.hit, Hit):
            self.pool.borrow(table, demand.hit)
            request.num_cached_blocks = len(request.block_ids)
        count = self.blocks_for(total + demand.lookahead_tokens) - len(request.block_ids)
        if count > 0:
            request.block_ids += self.pool.get_new_blocks(count)
        if demand.caches:
            self.cache_blocks(request, min(total, request.num_tokens))

    def allocate_slots(self, request: Request, num_new_tokens: int) -> list[int] | None:
        """Room for a running request's next tokens: the new block ids, or None if short."""
        total = request.num_computed_tokens + num_new_tokens
        count = self.blocks_for(total + self.lookahead_tokens) - len(request.block_ids)
        new_blocks: list[int] = []
        if count > 0:
            if count > self.pool.num_free:
                return None
            new_blocks = self.pool.get_new_blocks(count)
            request.block_ids += new_blocks
        if self.enable_prefix_caching:
            self.cache_blocks(request, min(total, request.num_tokens))
        return new_blocks

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Hash the blocks that `num_tokens` fill and that carry no hash yet."""
        full = num_tokens // self.block_size
        if not self.enable_prefix_caching or full <= request.num_cached_blocks:
            return
        if self.config.prefill_lookahead_tokens:
            full = min(full, self._hashable(request, num_tokens) // self.block_size)
        first = request.num_cached_blocks
        if full > first:
            held = min(full, len(request.block_ids))  # fewer past max_model_len
            if held > first:
                self.pool.cache(table_of(request), request.identity.stretches(first, held))
            request.num_cached_blocks = full

    def free(self, request: Request) -> int:
        """Return a request's blocks, tail first; returns how many became free."""
        return self.pool.free(self.take_blocks(request))

    def take_blocks(self, request: Request) -> BlockTable:
        """Take a request's blocks from it without giving them back to the pool."""
        taken = table_of(request)
        request.block_ids, request.block_table = [], None
        request.num_cached_blocks = 0
        return taken

    def reset_prefix_cache(self) -> bool:
        """Forget all hashes; False while any block is held."""
        return self.pool.reset_prefix_cache()

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold so many tokens, the context's length at most."""
        return -(-min(num_tokens, self.max_model_len) // self.block_size)

    def _hashable(self, request: Request, num_tokens: int) -> int:
        """Tokens whose blocks can be named and are final, with a drafter that reads ahead."""
        named = request.num_tokens - self.config.hash_lookahead_tokens
        return max(min(num_tokens - self.config.uncacheable_tokens, named), 0)

    def _computed(self, request: Request, demand: SlotDemand) -> int:
        found = len(demand.hit) * self.block_size + demand.num_external_tokens
        return min(request.num_computed_tokens + found, self.max_model_len)


def table_of(request: Request) -> BlockTable:
    """A request's block table, made when it is first asked for."""
    table = request.block_table
    if table is None:
        table = request.block_table = BlockTable(request.block_ids)
    return table
