"""Shared prefixes: a tree of text pieces; each session's prompts begin with one path through it."""

import math
from dataclasses import dataclass

import numpy as np

from schedbench.errors import UsageError
from schedbench.workloads.generators.draws import Draws, Ints, Stream, pick
from schedbench.workloads.generators.lengths import Distribution
from schedbench.workloads.generators.portable_math import Floats, exp, log

_MOST_LEAVES = 100_000


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the tree: every node above has `fanout` children, each `tokens` long."""

    fanout: int
    tokens: Distribution


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """System prompts at the first level, then e.g. tools or documents below each.

    Leaf k (from 0) is chosen with weight (k + 1)^-zipf; 0 means all alike. The path's tokens come
    on top of the drawn prompt length, as `--random-prefix-len` does in `vllm bench serve`.
    """

    levels: tuple[Level, ...]
    zipf: float = 0.0

    def __post_init__(self) -> None:
        leaves = math.prod(level.fanout for level in self.levels)
        if not self.levels or not 1 <= leaves <= _MOST_LEAVES:
            raise UsageError(f"prefix tree: {leaves} leaves; 1 to {_MOST_LEAVES} are possible")
        if not 0.0 <= self.zipf <= 10.0:  # noqa: PLR2004
            raise UsageError(f"prefix tree: zipf {self.zipf} is outside 0 to 10")


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """The tree cut into hash blocks; a block belongs to the deepest node it touches.

    system prompt        document        own text
    |----------------------|----------------|-------------->
    [block][block][block][block][block][block][block][block]
     `---- its node ----' `- its node -' `---- own ids ----
    """

    leaf_tokens: Ints
    leaf_blocks: Ints  # whole blocks inside the path
    leaf_offset: Ints  # where a leaf's ids begin in `ids`
    ids: Ints
    weights: Floats
    first_free_id: int

    def choose(self, draws: Draws, n: int) -> Ints:
        return pick(self.weights, draws.uniform(n))

    def ids_at(self, leaf: Ints, own_first: Ints, first: Ints, count: Ints) -> Ints:
        """Ids of block positions [first, first + count) of each row, one row after the other.

        Beyond its leaf's blocks a row counts up from `own_first`.
        """
        position = ranges(first, count)
        shared = self.leaf_blocks[leaf]
        ids = position + np.repeat(own_first - shared, count)
        inside = position < np.repeat(shared, count)
        in_tree = position + np.repeat(self.leaf_offset[leaf], count)
        ids[inside] = self.ids[in_tree[inside]]
        return ids


def plant(tree: PrefixTree | None, seed: int, hash_block_tokens: int) -> PrefixBlocks:
    """Draw the nodes' lengths and number their blocks from 0; no tree is one empty leaf."""
    draws = Draws(seed, Stream.PREFIX_TOKENS)
    levels = tree.levels if tree else ()
    leaves = math.prod(level.fanout for level in levels)
    tokens, blocks, free = np.zeros(leaves, dtype=np.int64), np.zeros(leaves, dtype=np.int64), 0
    firsts, counts = [], []
    nodes = 1
    for level in levels:
        nodes *= level.fanout
        node = np.arange(leaves) // (leaves // nodes)  # of each leaf, on this level
        tokens = tokens + level.tokens.draw(draws, nodes)[node]
        count = tokens // hash_block_tokens - blocks
        blocks = blocks + count
        node_count = count[:: leaves // nodes]
        firsts.append(free + (np.cumsum(node_count) - node_count)[node])
        counts.append(count)
        free += int(node_count.sum())
    return PrefixBlocks(
        leaf_tokens=tokens,
        leaf_blocks=blocks,
        leaf_offset=np.cumsum(blocks) - blocks,
        ids=ranges(_by_leaf(firsts), _by_leaf(counts)),
        weights=exp(-(tree.zipf if tree else 0.0) * log(np.arange(1.0, leaves + 1.0))),
        first_free_id=free,
    )


def ranges(first: Ints, count: Ints) -> Ints:
    """All of range(first[0], first[0] + count[0]), then of the next, in one array."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if ends.size else 0
    return np.asarray(np.arange(total) + np.repeat(first - (ends - count), count), dtype=np.int64)


def _by_leaf(per_level: list[Ints]) -> Ints:
    return np.stack(per_level, axis=1).ravel() if per_level else np.empty(0, dtype=np.int64)
