"""Block hashes for golden scenarios, whose prompts are lists of `[key, length]` segments.

Token j of a segment is a function of (key, j), so a block's content is the list of (key, first j,
length) it is made of, and its hash is a number for (hash of the block before, content).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

Run = tuple[str, int, int]  # key, first token, length


class SegmentHasher:
    """Numbers chained block contents; shared by all requests of a scenario."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._numbers: dict[Hashable, int] = {}

    def number(self, parent: int, content: Hashable) -> int:
        return self._numbers.setdefault((parent, content), len(self._numbers))


class SegmentIdentity:
    """One request's tokens as runs; output token j is token j of the key `o:ID`."""

    def __init__(
        self,
        hasher: SegmentHasher,
        prompt: Iterable[tuple[str, int]],
        output_key: str,
        root: Hashable,
    ) -> None:
        self._hasher = hasher
        self._runs: list[Run] = [(key, 0, length) for key, length in prompt]
        self._output_key = output_key
        self._num_output = 0  # output tokens turned into runs so far
        self._hashes: list[int] = []
        self._root = hasher.number(-1, root)

    def block_hash(self, index: int) -> int:
        while len(self._hashes) <= index:
            self._hash_next()
        return self._hashes[index]

    def _hash_next(self) -> None:
        parent = self._hashes[-1] if self._hashes else self._root
        self._hashes.append(self._hasher.number(parent, self._take_content()))

    def _take_content(self) -> tuple[Run, ...]:
        """Cut the next block's worth of tokens off the front of the runs."""
        content: list[Run] = []
        wanted = self._hasher.block_size
        while wanted:
            if not self._runs:
                self._runs.append((self._output_key, self._num_output, wanted))
                self._num_output += wanted
            key, first, length = self._runs.pop(0)
            taken = min(length, wanted)
            content.append((key, first, taken))
            wanted -= taken
            if taken < length:
                self._runs.insert(0, (key, first + taken, length - taken))
        return tuple(content)
