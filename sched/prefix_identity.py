"""Names for the content of full blocks, from what a trace says about prefixes.

vLLM chains a hash over the tokens of each block. A trace has no tokens, but it can say which
prompts begin alike (`hash_ids`): an id names a whole prefix up to and with its hash block, so a
scheduler block is named by the id that covers its end, and by its place under that id.

    hash blocks      |        7        |        8        |   9 (tail)
    scheduler blocks | 7.0 | 7.1 | 7.2 | 8.0 | 8.1 | 8.2 | 9.0 | 9.1 | the request's own
                                                              prompt ends ^

Where a hash also covers some tokens after its block (a drafter that reads ahead), the id is the one
that covers the last of those: above, with one token, 7.2 would be the first block under 8.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, count
from typing import TYPE_CHECKING

from schedbench.errors import UsageError
from schedbench.sched.kv_cache.block_table import PLACE_BITS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from schedbench.sched.request import StreamingUpdate


class BlockNames:
    """A request's block names: those given, and behind them some that no one else has."""

    __slots__ = ("_firsts", "_num_shared", "_own", "_shared")

    def __init__(self, serial: int, shared: Sequence[range] = ()) -> None:
        self._own = -((serial + 1) << PLACE_BITS)  # names that nobody shares are below zero
        self._shared = shared
        *self._firsts, self._num_shared = accumulate(map(len, shared), initial=0)

    def block_hash(self, index: int) -> int:
        if index >= self._num_shared:
            return self._own + index - self._num_shared
        at = bisect_right(self._firsts, index) - 1
        return self._shared[at][index - self._firsts[at]]

    def stretches(self, first: int, end: int) -> Iterator[range]:
        if first < self._num_shared:
            at = bisect_right(self._firsts, first) - 1
            for begin, names in zip(self._firsts[at:], self._shared[at:], strict=True):
                if begin >= end:
                    return
                whole = begin >= first and begin + len(names) <= end
                yield names if whole else names[max(first - begin, 0) : end - begin]
            first = self._num_shared
        if first < end:
            own = self._own - self._num_shared
            yield range(own + first, own + end)

    def next_input(
        self, num_tokens: int, num_kept: int, update: StreamingUpdate, *, redo: bool
    ) -> None:
        """A trace gives ids for a session's first input only; what follows is its own."""

    def rehash(self) -> None:
        """Names depend on nothing that changes."""


class PrefixNames:
    """Hands out the block names of one run.

    Args:
        block_size: tokens in a block of the scheduler.
        hash_block_tokens: tokens in a hash block of the trace; None if it has no ids.
        lookahead_tokens: tokens after a block that its name covers too.

    Raises:
        UsageError: neither size divides the other, so that a block would begin and end inside
            different hash blocks.
    """

    def __init__(
        self, block_size: int, hash_block_tokens: int | None, lookahead_tokens: int = 0
    ) -> None:
        size = hash_block_tokens or block_size
        if block_size % size and size % block_size:
            raise UsageError(
                f"--block-size {block_size} and the trace's hash blocks of {size} tokens: one "
                "has to divide the other, or prefixes cannot be compared; choose a block size "
                f"that divides {size} or is a multiple of it"
            )
        self._block_size = block_size
        self._hash_block_tokens = size
        self._lookahead_tokens = lookahead_tokens
        self._per_hash_block = max(size // block_size, 1)
        self._per_block = max(block_size // size, 1)
        self._under: dict[Hashable, dict[int, range]] = {}  # by namespace, the names under each id
        self._keys = count()
        self._same: dict[int, int] = {}
        self._serial = 0

    def own(self) -> BlockNames:
        """Names for a request that shares nothing."""
        self._serial += 1
        return BlockNames(self._serial)

    def shared(
        self,
        num_prompt_tokens: int,
        hash_ids: Sequence[int],
        output_hash_ids: Sequence[int] = (),
        namespace: Hashable = None,
    ) -> BlockNames:
        """Names for a request whose prompt has ids, and perhaps its output.

        A namespace is a LoRA adapter and a cache salt: equal ids in different ones share nothing.
        `output_hash_ids` go on where the prompt's whole hash blocks end.
        """
        whole = num_prompt_tokens // self._hash_block_tokens
        num_tokens = num_prompt_tokens
        under = self._names_under(namespace, hash_ids)
        if output_hash_ids:
            last = self._names_under(namespace, output_hash_ids)
            if len(under) > whole:
                self._join_tail(under[whole], last[0], num_prompt_tokens)
            under = under[:whole] + last
            num_tokens = len(under) * self._hash_block_tokens
        self._serial += 1
        named = min(num_tokens, len(under) * self._hash_block_tokens)
        num_blocks = max(named - self._lookahead_tokens, 0) // self._block_size
        return BlockNames(self._serial, self._names(under, num_blocks))

    def _names_under(self, namespace: Hashable, hash_ids: Sequence[int]) -> list[range]:
        """For each id, the names of the blocks in its hash block."""
        known, found = self._under.setdefault(namespace, {}), []
        follows = -1  # the name after those given last, if the next ids may go on from there
        for hash_id in hash_ids:
            names = known.get(hash_id)
            if names is None:
                first = follows if follows >= 0 else next(self._keys) << PLACE_BITS
                names = known[hash_id] = range(first, first + self._per_hash_block)
                if self._per_block == 1:
                    follows = names.stop
            else:
                follows = -1
            found.append(names)
        return found

    def _names(self, under: list[range], num_blocks: int) -> list[range]:
        if self._lookahead_tokens:
            names = list(self._names_ahead(under, num_blocks))
        else:
            names = under[self._per_block - 1 :: self._per_block]
            whole, rest = divmod(num_blocks, self._per_hash_block)
            names[whole:] = [names[whole][:rest]] if rest else []
        return list(self._with_joined(names)) if self._same else _together(names)

    def _names_ahead(self, under: list[range], num_blocks: int) -> Iterator[range]:
        """Names under the id that covers the last token ahead of each block."""
        last = self._block_size + self._lookahead_tokens - 1  # that token, of block 0
        for token in range(last, last + num_blocks * self._block_size, self._block_size):
            hash_block, offset = divmod(token, self._hash_block_tokens)
            name = under[hash_block].start + offset // self._block_size
            yield range(name, name + 1)

    def _with_joined(self, stretches: Iterable[range]) -> Iterator[range]:
        """The same, with blocks by the names of those that they begin alike with."""
        for names in stretches:
            if self._same.keys().isdisjoint(names):
                yield names
            else:
                for name in names:
                    same = self._same.get(name, name)
                    yield range(same, same + 1)

    def _join_tail(self, tail: range, completed: range, num_prompt_tokens: int) -> None:
        """The prompt's partial tail and the hash block the output completes begin alike."""
        in_tail = num_prompt_tokens % self._hash_block_tokens
        step = min(self._block_size, self._hash_block_tokens)
        last = (self._lookahead_tokens - 1) % step  # token that names the first block in the tail
        for place in range(-(-(in_tail - last) // step)):
            self._same.setdefault(completed.start + place, tail.start + place)


def _together(stretches: Sequence[range]) -> list[range]:
    """The same names, those that follow on each other in one stretch."""
    found: list[range] = []
    for names in stretches:
        if found and found[-1].stop == names.start:
            found[-1] = range(found[-1].start, names.stop)
        else:
            found.append(names)
    return found
