"""Persistent rows, one a running request: block tables and token seeds, changed in place.

A row is taken at an admission and given back when its request finishes or is evicted. Between
passes only new blocks are written; nothing is built anew.

A trace has no tokens, so they are made: a token is a function of its block's name and its place
in the block. Requests that share a block by name thereby share its tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from schedbench.errors import InvariantError
from schedbench.sched.request import RequestStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from schedbench.sched.output import SchedulerOutput

    Ints = npt.NDArray[np.int32]

_MASK: Final = 0xFFFFFFFF


class NamesBlocks(Protocol):
    """As much of a request's identity as makes its tokens."""

    def block_hash(self, index: int) -> int:
        """Name of block `index`."""
        ...


class HasBlocks(Protocol):
    """What a row needs to know of a request."""

    request_id: str
    num_computed_tokens: int
    status: RequestStatus

    @property
    def identity(self) -> NamesBlocks:
        """Names of its blocks."""
        ...


def seed_of(block_hash: int) -> int:
    """32 bits of a block's name, whatever the size and sign of the name."""
    return ((block_hash & _MASK) * 0x9E3779B1 + (block_hash >> 32) * 0x85EBCA6B) & _MASK


def tokens_of(seeds: npt.NDArray[np.uint32], offsets: Ints, vocab_size: int) -> Ints:
    """Token ids of places in blocks: mixed from the block's seed and the offset, `[T]` each."""
    mixed = seeds ^ (offsets.astype(np.uint32) * np.uint32(0x9E3779B1))
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    return (mixed % np.uint32(vocab_size)).astype(np.int32)


class RowTable:
    """Rows of `max_blocks` block ids; `num_rows` requests can be running at once."""

    def __init__(self, num_rows: int, max_blocks: int) -> None:
        self.blocks = np.zeros((num_rows, max_blocks), dtype=np.int32)
        self.seeds = np.zeros((num_rows, max_blocks), dtype=np.uint32)
        self.num_blocks = np.zeros(num_rows, dtype=np.int32)
        self.row_of: dict[str, int] = {}
        self.requests: list[HasBlocks | None] = [None] * num_rows
        self._free = list(range(num_rows - 1, -1, -1))
        self._changed: list[tuple[int, int, int]] = []  # row, first and last block + 1

    def update(self, output: SchedulerOutput) -> None:
        """Follow a pass's decisions: finished and evicted first, so that their rows are free."""
        for request_id in output.finished_req_ids:
            self.release(request_id)
        for request, _ in output.victims:
            self.release(request.request_id)
        new_blocks = output.new_block_ids
        for request in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs):
            self.place(request, new_blocks[request.request_id])
        if len(new_blocks) > len(output.scheduled_new_reqs) + len(output.scheduled_resumed_reqs):
            for request in output.scheduled_running_reqs:
                blocks = new_blocks.get(request.request_id)
                if blocks:
                    self.append(request.request_id, blocks)

    def place(self, request: HasBlocks, block_ids: Sequence[int]) -> int:
        """Give a request a row, or its row a new table; returns the row."""
        row = self.row_of.get(request.request_id)
        if row is None:
            if not self._free:
                self.sweep()
            if not self._free:
                raise InvariantError(
                    f"request {request.request_id} has no row: all {len(self.requests)} of the "
                    "block table belong to requests that run"
                )
            row = self._free.pop()
            self.row_of[request.request_id] = row
        self.requests[row] = request
        self.num_blocks[row] = 0
        self._write(row, block_ids)
        return row

    def append(self, request_id: str, block_ids: Sequence[int]) -> None:
        """Add blocks to a row."""
        self._write(self.row_of[request_id], block_ids)

    def release(self, request_id: str) -> None:
        """Give a row back; an id without a row is none of ours (it never ran)."""
        row = self.row_of.pop(request_id, None)
        if row is not None:
            self.requests[row] = None
            self._free.append(row)

    def clear(self) -> None:
        """Give all rows back."""
        for request_id in list(self.row_of):
            self.release(request_id)

    def take_changes(self) -> tuple[Ints, Ints]:
        """Block table entries written since the last call: flat places, block ids."""
        width = self.blocks.shape[1]
        places = [np.arange(row * width + a, row * width + b) for row, a, b in self._changed]
        self._changed.clear()
        if not places:
            empty = np.empty(0, dtype=np.int32)
            return empty, empty
        at = np.concatenate(places).astype(np.int32)
        return at, self.blocks.reshape(-1)[at]

    def _write(self, row: int, block_ids: Sequence[int]) -> None:
        begin = int(self.num_blocks[row])
        end = begin + len(block_ids)
        request = self.requests[row]
        assert request is not None
        if end > self.blocks.shape[1]:
            raise InvariantError(
                f"request {request.request_id} has {end} blocks, and a row of the block table "
                f"holds {self.blocks.shape[1]}"
            )
        name = request.identity.block_hash
        self.blocks[row, begin:end] = block_ids
        self.seeds[row, begin:end] = [seed_of(name(index)) for index in range(begin, end)]
        self.num_blocks[row] = end
        self._changed.append((row, begin, end))

    def sweep(self) -> None:
        """Take back rows of requests that left the running list between two passes.

        A cache reset evicts them and a session waits for input without any pass saying so.
        """
        for request_id, row in list(self.row_of.items()):
            request = self.requests[row]
            if request is not None and request.status is not RequestStatus.RUNNING:
                self.release(request_id)
