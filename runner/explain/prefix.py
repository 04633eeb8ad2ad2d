"""Watches the prefix cache: what was looked up, what was found, and why not more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from schedbench.results.explain.prefix import Lookups, Prefix
from schedbench.results.spread import spread
from schedbench.runner.watch import Watcher
from schedbench.sched.kv_cache.block_pool import BlockPool
from schedbench.workloads.reuse import shared_tokens

if TYPE_CHECKING:
    from schedbench.results.arrays import Ints
    from schedbench.runner.explain.rerun import Rerun
    from schedbench.runner.replay import Replay
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request

HIT_SHARES = {"none": 0.0, "up to 25 %": 0.25, "up to 50 %": 0.5, "up to 75 %": 0.75, "more": 1.0}

WORTH_A_BLOCK = 0.01
"""Of the tokens looked up, lost to the block floor: from here on a smaller block is tried."""


class PrefixWatcher(Watcher):
    """Sorts every token that could have been hit by what became of it.

    `shared`: for each row, tokens of its prompt that an earlier row brought; None if not known.
    """

    def __init__(self, shared: Ints | None) -> None:
        self.first, self.resumed = Lookups(), Lookups()
        self.external = 0
        self.lost = {"evicted": 0, "not_yet": 0, "floor": 0}
        self.shares: list[float] = []
        self.shared_by_admitted: list[int] = []
        self._shared = shared
        self._cached_once: set[int] = set()

    def begins(self, replay: Replay) -> None:
        """Before the first pass: note from now on what is ever put into the cache."""
        pool = replay.scheduler.kv_cache.pool
        if isinstance(pool, BlockPool):
            pool.told_of_names = self._cached_once.update

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        if not output.scheduled_new_reqs and not output.scheduled_resumed_reqs:
            return
        computed = {grant.request: grant.num_computed_tokens for grant in output.prefills}
        for request in output.scheduled_new_reqs:
            hit = output.lookups.get(request.request_id)
            if hit is not None:
                self.external += computed[request] - hit
                self._admitted(request, hit, replay.scheduler.config.block_size)
        for request in output.scheduled_resumed_reqs:
            hit = output.lookups.get(request.request_id)
            if hit is not None:
                self.resumed.add(request.num_tokens, hit)

    def _admitted(self, request: Request, hit: int, block_size: int) -> None:
        prompt = request.num_prompt_tokens
        self.first.add(prompt, hit)
        self.shares.append(hit / prompt)
        if self._shared is None:
            return
        shared = max(int(self._shared[request.tag.row]), hit)
        self.shared_by_admitted.append(shared)
        whole = min(shared // block_size, (prompt - 1) // block_size) * block_size
        self.lost["floor"] += shared - max(whole, hit)
        missing = max(whole - hit, 0)
        if missing:
            name = request.identity.block_hash(hit // block_size)
            self.lost["evicted" if name in self._cached_once else "not_yet"] += missing


def prefix_watcher_of(rerun: Rerun) -> PrefixWatcher:
    return PrefixWatcher(shared_tokens(rerun.prepared()))


def prefix_of(watcher: PrefixWatcher, rerun: Rerun) -> Prefix:
    """What was seen of the prefix cache."""
    shared = np.array(watcher.shared_by_admitted, dtype=np.int64)
    config = rerun.config
    return Prefix(
        is_on=config.enable_prefix_caching,
        block_size=config.block_size,
        hash_block_tokens=rerun.trace.hash_block_tokens,
        first=watcher.first,
        resumed=watcher.resumed,
        external_tokens=watcher.external,
        shared=int(shared.sum()) if rerun.trace.has("hash_ids") else None,
        evicted=watcher.lost["evicted"],
        not_yet=watcher.lost["not_yet"],
        floor=watcher.lost["floor"],
        shared_spread=spread(shared[shared > 0]),
        hit_shares=_by_share(watcher.shares),
    )


def _by_share(shares: list[float]) -> dict[str, int]:
    """How many requests hit none of their prompt, up to a quarter, and so on."""
    counts = dict.fromkeys(HIT_SHARES, 0)
    for share in shares:
        name = next(name for name, most in HIT_SHARES.items() if share <= most)
        counts[name] += 1
    return counts


def prefix_changes(found: Prefix, rerun: Rerun) -> list[dict[str, Any]]:
    """Changes that may raise the hit rate: a smaller block in the same memory, a larger pool."""
    config, changes = rerun.config, []
    if not config.enable_prefix_caching:
        return [{"enable_prefix_caching": True}] if rerun.trace.has("hash_ids") else []
    if not rerun.trace.has("hash_ids"):
        return []
    smaller = _smaller_block(config.block_size, rerun.trace.hash_block_tokens or config.block_size)
    if smaller is not None and found.floor >= WORTH_A_BLOCK * found.first.queried:
        blocks = config.usable_blocks * config.block_size // smaller + 1
        changes.append({"block_size": smaller, "num_gpu_blocks": blocks})
    if found.evicted:
        changes += [{"num_gpu_blocks": factor * config.num_gpu_blocks} for factor in (2, 8)]
    return changes


def _smaller_block(block_size: int, hash_block: int) -> int | None:
    """Half a block or less, of a size that the trace's hash blocks can be cut into."""
    for size in (block_size // 2, hash_block, block_size // 4, 16):
        if 1 <= size < block_size and (hash_block % size == 0 or size % hash_block == 0):
            return size
    return None
