"""Decoding requests that are not looked at: when each began, and what follows from that.

A request that began to decode in pass q with c tokens computed has c + (p - q) of them before pass
p. It opens a block where that is a multiple of the block size, so in the passes that are equal to
q - c modulo it, and it ends in a pass known from the start.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.sched.request import Request


class DecodeLedger:
    """Passes are numbered from 0, from when it is opened; `index` is the next one to schedule."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.index = 0
        self.context_tokens = 0  # computed before pass `index`, summed
        self.joined: dict[Request, int] = {}  # the pass in which each began
        self.opens = [0] * block_size  # how many open a block, by pass modulo the block size
        self._computed: dict[Request, int] = {}  # tokens computed when it began
        self._ends: dict[int, list[Request]] = {}
        self._end_order: list[int] = []  # a heap of the calendar's passes

    def __len__(self) -> int:
        return len(self.joined)

    def join(self, request: Request, num_passes: int) -> None:
        """Let a request decode from pass `index` on, `num_passes` of them in all."""
        computed = self._computed[request] = request.num_computed_tokens
        self.joined[request] = self.index
        self.context_tokens += computed
        self.opens[(self.index - computed) % self.block_size] += 1
        end = self.index + num_passes - 1
        if end not in self._ends:
            self._ends[end] = []
            heapq.heappush(self._end_order, end)
        self._ends[end].append(request)

    def part(self, request: Request) -> tuple[int, int]:
        """Take a request out: tokens computed when it began, and the pass in which it did."""
        began, computed = self.joined.pop(request), self._computed.pop(request)
        self.opens[(began - computed) % self.block_size] -= 1
        self.context_tokens -= computed + self.index - began
        return computed, began

    def opens_at(self, request: Request) -> int:
        """The passes, modulo the block size, in which a request opens a block."""
        return (self.joined[request] - self._computed[request]) % self.block_size

    def computed_before(self, request: Request, index: int) -> int:
        return self._computed[request] + index - self.joined[request]

    def advance(self, num_passes: int) -> None:
        self.index += num_passes
        self.context_tokens += num_passes * len(self.joined)

    @property
    def next_end(self) -> int | None:
        """The first pass in which somebody ends."""
        return self._end_order[0] if self._end_order else None

    def ending(self) -> list[Request]:
        """Who ends in pass `next_end`."""
        return self._ends[self._end_order[0]]

    def take_ending(self) -> list[Request]:
        return self._ends.pop(heapq.heappop(self._end_order))

    def opened(self, num_passes: int, shift: int = 0) -> int:
        """Blocks opened in so many passes from `index + shift` on."""
        cycles, rest = divmod(num_passes, self.block_size)
        first = self.index + shift
        return cycles * len(self.joined) + sum(
            self.opens[(first + offset) % self.block_size] for offset in range(rest)
        )

    def passes_with_room(self, limit: int, room: int) -> int:
        """How many of the next `limit` passes find blocks, if `room` are there."""
        if len(self.joined) * (limit // self.block_size + 1) <= room:
            return limit
        for num_passes in range(limit):
            room -= self.opens[(self.index + num_passes) % self.block_size]
            if room < 0:
                return num_passes
        return limit


def in_running_order(requests: list[Request], running: list[Request]) -> list[Request]:
    """Sort requests as they stand in the running list."""
    if len(requests) == 1:
        return requests
    wanted = set(requests)
    return [request for request in running if request in wanted]
