"""When requests come: as recorded, after one another, or all at once.

Times are ns of the simulated clock.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Literal, Protocol

from schedbench.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from schedbench.runner.requests import Row
    from schedbench.sched.request import Request

ArrivalMode = Literal["open", "closed", "all-at-once"]
Arrival = tuple["Row", "Request"]


class Arrivals(Protocol):
    """Where the replay loop gets its requests from."""

    def next_ns(self) -> int | None:
        """When the next request comes; None if none will come by itself."""
        ...

    def take(self, now_ns: int) -> Iterator[Arrival]:
        """Requests that have come by now, in order."""
        ...

    def finished(self, row: Row, now_ns: int) -> None:
        """Tell that a request ended, for those that wait for it."""
        ...


class OpenLoop:
    """Requests come when the trace says, whatever becomes of the earlier ones."""

    def __init__(self, source: Iterable[Arrival]) -> None:
        self._rest = iter(source)
        self._head = next(self._rest, None)

    def next_ns(self) -> int | None:
        return self._head[0].added_ns if self._head else None

    def take(self, now_ns: int) -> Iterator[Arrival]:
        while self._head is not None and self._head[0].added_ns <= now_ns:
            yield self._head
            self._head = next(self._rest, None)

    def finished(self, row: Row, now_ns: int) -> None:
        """Nobody waits for anybody."""


class AllAtOnce:
    """Every request is there when the clock starts."""

    def __init__(self, source: Iterable[Arrival]) -> None:
        self._rest = iter(source)
        self._taken = False

    def next_ns(self) -> int | None:
        return None if self._taken else 0

    def take(self, now_ns: int) -> Iterator[Arrival]:  # noqa: ARG002 - all have come
        self._taken = True
        for arrival in self._rest:
            _set_times(arrival, 0, 0)
            yield arrival

    def finished(self, row: Row, now_ns: int) -> None:
        """Nobody waits for anybody."""


class ClosedLoop:
    """A request with `after` comes `think_ns` after that row finished; the others as recorded.

    Raises:
        TraceError: a row has `after` and neither it nor `think_ns` says how long it waits. The
            gap between two recorded arrivals would count the recorded service time as thinking.
    """

    def __init__(
        self,
        source: Iterable[Arrival],
        think_ns: int | None = None,
        due: Mapping[int, int] | None = None,
    ) -> None:
        """Sort requests by what they wait for; `due`: when those come that wait no more, by row."""
        self._coming: list[tuple[int, int, Arrival]] = []
        self._waiting: dict[int, list[tuple[int, Arrival]]] = defaultdict(list)
        for arrival in source:
            row, _ = arrival
            if row.after is None:
                self._coming.append((row.added_ns, row.row, arrival))
                continue
            if due is not None and row.row in due:
                _set_times(arrival, due[row.row], due[row.row])
                self._coming.append((row.added_ns, row.row, arrival))
                continue
            think = think_time(row.row, row.after, row.think_ns, think_ns)
            self._waiting[row.after].append((think, arrival))
        heapq.heapify(self._coming)

    def next_ns(self) -> int | None:
        return self._coming[0][0] if self._coming else None

    def take(self, now_ns: int) -> Iterator[Arrival]:
        while self._coming and self._coming[0][0] <= now_ns:
            yield heapq.heappop(self._coming)[2]

    def finished(self, row: Row, now_ns: int) -> None:
        for think, arrival in self._waiting.pop(row.row, ()):
            at = now_ns + think
            _set_times(arrival, at, at)
            heapq.heappush(self._coming, (at, arrival[0].row, arrival))


def think_time(row: int, after: int, own_ns: int | None, think_ns: int | None) -> int:
    """How long a row waits after another: its own time, or the one given for all. In ns."""
    think = own_ns if own_ns is not None else think_ns
    if think is None:
        raise TraceError(
            f"row {row}: `after` is {after} and `think_ns` is not known; a closed "
            "loop needs the time between an answer and the next question: give "
            "--think-time, or replay with --arrivals open"
        )
    return think


def _set_times(arrival: Arrival, arrival_ns: int, added_ns: int) -> None:
    row, request = arrival
    row.arrival_ns, row.added_ns = arrival_ns, added_ns
    request.arrival_time = arrival_ns
