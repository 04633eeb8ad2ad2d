"""Things that are due at a time of the simulated clock."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timers:
    """Calls what is due, in order of time; of equal times, in the order in which it was set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (due_ns, self._serial, action))

    def next_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def run_due(self, now_ns: int) -> None:
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2]()
