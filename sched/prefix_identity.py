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

from typing import TYPE_CHECKING

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from schedbench.sched.request import StreamingUpdate

OWN_BITS = 32  # blocks one request may have; names that nobody shares are below zero


class BlockNames:
    """A request's block hashes: those given, and behind them some that no one else has."""

    __slots__ = ("_own", "_shared")

    def __init__(self, serial: int, shared: Sequence[int] = ()) -> None:
        self._own = -((serial + 1) << OWN_BITS)
        self._shared = shared

    def block_hash(self, index: int) -> int:
        return self._shared[index] if index < len(self._shared) else self._own + index

    def block_hashes(self, first: int, end: int) -> list[int]:
        shared = len(self._shared)
        own = range(self._own + max(first, shared), self._own + max(end, shared))
        return [*self._shared[first:end], *own]

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
        self._numbers: dict[Hashable, int] = {}
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
        ids = [self._number(namespace, each) for each in hash_ids]
        if output_hash_ids:
            last = [self._number(namespace, each) for each in output_hash_ids]
            if len(ids) > whole:
                self._join_tail(ids[whole], last[0], num_prompt_tokens)
            ids = ids[:whole] + last
            num_tokens = len(ids) * self._hash_block_tokens
        self._serial += 1
        named = min(num_tokens, len(ids) * self._hash_block_tokens)
        num_blocks = max(named - self._lookahead_tokens, 0) // self._block_size
        return BlockNames(self._serial, self._names(ids, num_blocks))

    def _number(self, namespace: Hashable, hash_id: int) -> int:
        return self._numbers.setdefault((namespace, hash_id), len(self._numbers))

    def _names(self, ids: list[int], num_blocks: int) -> list[int]:
        if self._lookahead_tokens:
            names = self._names_ahead(ids, num_blocks)
        elif self._per_hash_block == 1:
            names = ids[self._per_block - 1 :: self._per_block][:num_blocks]
        else:
            names = []
            for number in ids:
                first = number * self._per_hash_block
                names.extend(range(first, first + self._per_hash_block))
            del names[num_blocks:]
        return [self._same.get(name, name) for name in names] if self._same else names

    def _names_ahead(self, ids: list[int], num_blocks: int) -> list[int]:
        """Names under the id that covers the last token ahead of each block."""
        last = self._block_size + self._lookahead_tokens - 1  # that token, of block 0
        names = []
        for token in range(last, last + num_blocks * self._block_size, self._block_size):
            hash_block, offset = divmod(token, self._hash_block_tokens)
            place = offset // self._block_size
            names.append(ids[hash_block] * self._per_hash_block + place)
        return names

    def _join_tail(self, tail: int, completed: int, num_prompt_tokens: int) -> None:
        """The prompt's partial tail and the hash block the output completes begin alike."""
        in_tail = num_prompt_tokens % self._hash_block_tokens
        step = min(self._block_size, self._hash_block_tokens)
        last = (self._lookahead_tokens - 1) % step  # token that names the first block in the tail
        for place in range(-(-(in_tail - last) // step)):
            name = completed * self._per_hash_block + place
            self._same.setdefault(name, tail * self._per_hash_block + place)
