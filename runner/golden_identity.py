"""Block hashes for golden scenarios, whose prompts are lists of `[key, length]` segments.

Token j of a segment is a function of (key, j), so a block's content is the list of (key, first j,
length) it is made of, and its hash is a number for (hash of the block before, content).
"""

from __future__ import annotations

from itertools import count, groupby
from typing import TYPE_CHECKING, Any, Final

from schedbench.sched.kv_cache.block_table import PLACE_BITS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from schedbench.sched.request import EncoderInput, StreamingUpdate

Run = tuple[str, int, int]  # key, first token, length

_NOTHING: Final = -1  # what a root stands behind


class SegmentHasher:
    """Names chained block contents; shared by all requests of a scenario.

    Args:
        block_size: tokens in a block.
        lookahead_tokens: tokens after a block that its hash covers too.
        sees_all_items: hash a later block with every item in it, not with the last one only.
    """

    def __init__(
        self, block_size: int, lookahead_tokens: int = 0, *, sees_all_items: bool = False
    ) -> None:
        self.block_size = block_size
        self.lookahead_tokens = lookahead_tokens
        self.sees_all_items = sees_all_items
        self._names: dict[Hashable, int] = {}
        self._followed = {_NOTHING}  # names whose next number is taken
        self._keys = count()

    def name(self, parent: int, content: Hashable) -> int:
        """Of a block behind another: the next number for what first came there, else a new key."""
        known = self._names.get((parent, content))
        if known is None:
            known = parent + 1 if parent not in self._followed else next(self._keys) << PLACE_BITS
            self._names[parent, content] = known
            self._followed.add(parent)
        return known


class SegmentIdentity:
    """One request's tokens as runs; output token j is token j of the key `o:ID`.

    Blocks are hashed when they are full, with the tokens and the items known then. A streaming
    session's next input changes tokens behind them and leaves those hashes alone, but for blocks
    that the dropped token ends, where the release makes them anew.
    """

    def __init__(
        self,
        hasher: SegmentHasher,
        request_id: str,
        prompt: Sequence[tuple[str, int]],
        items: Sequence[EncoderInput] = (),
        root: Hashable = None,
    ) -> None:
        self._hasher = hasher
        self._output_key = f"o:{request_id}"
        self.runs: list[Run] = [(key, 0, length) for key, length in prompt]
        self._items = list(items)
        self._num_before_output = sum(length for _, length in prompt)
        self._hashes: list[int] = []
        self._passed = (0, 0)  # runs that are hashed whole, and the tokens in them
        self._root = hasher.name(_NOTHING, root)
        self._hash_through(self._num_before_output)

    def block_hash(self, index: int) -> int:
        hasher = self._hasher
        self._hash_through((index + 1) * hasher.block_size + hasher.lookahead_tokens)
        return self._hashes[index]

    def stretches(self, first: int, end: int) -> Iterator[range]:
        names = enumerate(map(self.block_hash, range(first, end)))
        for _, group in groupby(names, lambda each: each[1] - each[0]):
            together = [name for _, name in group]
            yield range(together[0], together[-1] + 1)

    def rehash(self) -> None:
        num_tokens = len(self._hashes) * self._hasher.block_size + self._hasher.lookahead_tokens
        self._hashes.clear()
        self._passed = (0, 0)
        self._hash_through(num_tokens)

    def next_input(
        self, num_tokens: int, num_kept: int, update: StreamingUpdate, *, redo: bool
    ) -> None:
        self._hash_through(num_tokens)
        if redo:
            del self._hashes[num_kept // self._hasher.block_size :]
        known = [*self.runs, (self._output_key, 0, num_tokens - self._num_before_output)]
        following: Any = update.content
        self.runs = [*cut(known, 0, num_kept), *following.runs]
        self._passed = (0, 0)
        self._items += [
            item.__class__(
                item.offset + num_kept, item.num_tokens, item.num_embeds, item.identifier
            )
            for item in update.encoder_inputs
        ]
        self._num_before_output = num_kept + update.num_prompt_tokens
        self._hash_through(self._num_before_output)

    def _hash_through(self, num_tokens: int) -> None:
        """Hash the full blocks of the first `num_tokens`; later ones perhaps with one item only."""
        block_size, ahead = self._hasher.block_size, self._hasher.lookahead_tokens
        first_item = 0
        if self._hashes and not self._hasher.sees_all_items:
            first_item = max(len(self._items) - 1, 0)
        output = max(num_tokens - self._num_before_output, 0)
        while (len(self._hashes) + 1) * block_size + ahead <= num_tokens:
            start = len(self._hashes) * block_size
            end = start + block_size + ahead
            content = self._content(start, end, output)
            seen = tuple(
                (item.identifier, item.offset - start)
                for item in self._items[first_item:]
                if item.offset < end and item.offset + item.num_tokens > start
            )
            parent = self._hashes[-1] if self._hashes else self._root
            self._hashes.append(self._hasher.name(parent, (content, seen)))

    def _content(self, start: int, end: int, num_output: int) -> tuple[Run, ...]:
        passed, before = self._passed
        while passed < len(self.runs) and before + self.runs[passed][2] <= start:
            before += self.runs[passed][2]
            passed += 1
        self._passed = (passed, before)
        last = passed
        reach = before
        while last < len(self.runs) and reach < end:
            reach += self.runs[last][2]
            last += 1
        rest = [*self.runs[passed:last], (self._output_key, 0, num_output)]
        return tuple(cut(rest, start - before, end - before))


def cut(runs: Sequence[Run], start: int, end: int) -> list[Run]:
    """The tokens from `start` to before `end` of a list of runs."""
    taken, at = [], 0
    for key, first, length in runs:
        low, high = max(start - at, 0), min(end - at, length)
        if low < high:
            taken.append((key, first + low, high - low))
        at += length
    return taken
