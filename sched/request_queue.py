"""Waiting queues: first come first served, or by priority.

"Front" is a position under fcfs. Under priority it is not: prepending is an ordinary push, and
the order is that of `Request.__lt__`, compared anew at every move as vLLM does.
"""

from __future__ import annotations

import copy
import heapq
from collections import deque
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedbench.sched.request import Request

SchedulingPolicy = Literal["fcfs", "priority"]


class RequestQueue(Protocol):
    """What the scheduler needs of a waiting collection."""

    def add_request(self, request: Request) -> None: ...
    def peek_request(self) -> Request: ...
    def pop_request(self) -> Request: ...
    def prepend_request(self, request: Request) -> None: ...
    def prepend_requests(self, requests: Iterable[Request]) -> None: ...
    def remove_requests(self, requests: set[Request]) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...


class FCFSRequestQueue(deque["Request"]):
    """First come first served; `prepend_requests` puts them in front one by one, so reversed."""

    add_request = deque.append
    pop_request = deque.popleft
    prepend_request = deque.appendleft
    prepend_requests = deque.extendleft

    def peek_request(self) -> Request:
        return self[0]

    def remove_requests(self, requests: set[Request]) -> None:
        kept = [request for request in self if request not in requests]
        self.clear()
        self.extend(kept)


class PriorityRequestQueue:
    """A heap of requests; iteration is in priority order."""

    def __init__(self) -> None:
        self._heap: list[Request] = []

    def add_request(self, request: Request) -> None:
        heapq.heappush(self._heap, request)

    prepend_request = add_request

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.add_request(request)

    def peek_request(self) -> Request:
        return self._heap[0]

    def pop_request(self) -> Request:
        return heapq.heappop(self._heap)

    def remove_requests(self, requests: set[Request]) -> None:
        self._heap = [request for request in self._heap if request not in requests]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        heap = self._heap.copy()
        while heap:
            yield heapq.heappop(heap)


class CopiedQueue:
    """A queue to be taken from in a dry run: requests are copied as they come to the head.

    Nothing can be put in: what a dry run sets aside stays out of its way.
    """

    def __init__(self, queue: RequestQueue, passed_over: set[Request]) -> None:
        self._rest = (request for request in queue if request not in passed_over)
        self._left = len(queue) - sum(1 for request in queue if request in passed_over)
        self._head: Request | None = None

    def peek_request(self) -> Request:
        if self._head is None:
            self._head = copy.copy(next(self._rest))
            self._head.block_ids = self._head.block_ids.copy()
        return self._head

    def pop_request(self) -> Request:
        request = self.peek_request()
        self._head = None
        self._left -= 1
        return request

    def add_request(self, request: Request) -> None:
        """Leave it out."""

    prepend_request = add_request

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        """Leave them out."""

    def remove_requests(self, requests: set[Request]) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return self._left

    def __iter__(self) -> Iterator[Request]:
        raise NotImplementedError


def create_request_queue(policy: SchedulingPolicy) -> RequestQueue:
    """Return an empty queue of the kind the scheduling policy asks for."""
    return PriorityRequestQueue() if policy == "priority" else FCFSRequestQueue()
