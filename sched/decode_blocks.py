"""Blocks of decodes that are put aside: opened and hashed pass by pass, nobody walked.

A request opens a block where its computed tokens are a multiple of the block size, and has one full
in the pass before. Where blocks are counted, how many do so is all that matters. Where they have
numbers, they are handed out in running order, which is the order in which requests joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.kv_cache.manager import table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.sched.decode_ledger import DecodeLedger
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler


class CountedBlocks:
    """Blocks as numbers of blocks."""

    def __init__(self, scheduler: Scheduler, ledger: DecodeLedger) -> None:
        self._scheduler = scheduler
        self._pool = scheduler.kv_cache.pool
        self._ledger = ledger

    def join(self, request: Request) -> None:
        """Nothing is known of a single request."""

    def part(self, request: Request, num_tokens: int) -> None:
        """Note the blocks of a request that holds so many tokens, and those of them with a hash."""
        hold_blocks(self._scheduler, request, num_tokens, num_tokens)

    def take(self, num_passes: int) -> None:
        """Open the blocks of the next passes, and hash those that become full in them."""
        self._pool.take(self._ledger.opened(num_passes))
        if self._scheduler.config.enable_prefix_caching:
            self._pool.num_cached += self._ledger.opened(num_passes, shift=1)


class NumberedBlocks:
    """Blocks by id, in vLLM's order."""

    def __init__(self, scheduler: Scheduler, ledger: DecodeLedger) -> None:
        self._pool = scheduler.kv_cache.pool
        self._ledger = ledger
        self._size = scheduler.config.block_size
        self._caches = scheduler.config.enable_prefix_caching
        self._openers: list[dict[Request, None]] = [{} for _ in range(self._size)]  # by phase
        self._places: dict[Request, int] = {}  # the phase of each

    def join(self, request: Request) -> None:
        """Let a request that has just joined the ledger open blocks."""
        place = self._places[request] = self._ledger.opens_at(request)
        self._openers[place][request] = None

    def part(self, request: Request, num_tokens: int) -> None:
        """Take a request out; what it holds is known, how many tokens they are does not matter."""
        del num_tokens
        del self._openers[self._places.pop(request)][request]

    def take(self, num_passes: int) -> None:
        """Open the blocks of the next passes, and hash those that become full in them.

        That all are opened before any is hashed makes no difference: what is opened loses its hash,
        and what becomes full is held.
        """
        size, index, pool = self._size, self._ledger.index, self._pool
        for at in range(index, index + num_passes):
            opening = self._openers[at % size]
            if opening:
                opened = pool.get_new_blocks(len(opening))
                for request, block_id in zip(opening, opened, strict=True):
                    request.block_ids.append(block_id)
            filling = self._openers[(at + 1) % size]
            if filling and self._caches:
                self._hash(filling)

    def _hash(self, requests: Iterable[Request]) -> None:
        """Hash the last block of each."""
        for request in requests:
            num_blocks = len(request.block_ids)
            last = request.identity.stretches(num_blocks - 1, num_blocks)
            self._pool.cache(table_of(request), last)
            request.num_cached_blocks = num_blocks


def hold_blocks(scheduler: Scheduler, request: Request, num_tokens: int, num_hashed: int) -> None:
    """Note the blocks that hold a request's tokens, and those that so many of them make hashed."""
    size, pool = scheduler.config.block_size, scheduler.kv_cache.pool
    table, first = table_of(request), request.num_cached_blocks
    table.ids += [0] * (-(-num_tokens // size) - len(table.ids))
    full = num_hashed // size
    if scheduler.config.enable_prefix_caching and full > first:
        pool.num_cached -= full - first  # counted when they became full
        pool.cache(table, request.identity.stretches(first, full))
        request.num_cached_blocks = full


def blocks_of(scheduler: Scheduler, ledger: DecodeLedger) -> CountedBlocks | NumberedBlocks:
    """Blocks of the kind that a scheduler keeps."""
    if not scheduler.kv_cache.pool.is_numbered:
        return CountedBlocks(scheduler, ledger)
    return NumberedBlocks(scheduler, ledger)
