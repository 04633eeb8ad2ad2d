"""Waiting queues: first come first served, or by priority.

"Front" is a position under fcfs. Under priority it is not: prepending is an ordinary push, and
the order is that of `Request.__lt__`, compared anew at every move as vLLM does.
"""

from __future__ import annotations

import copy
import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedbench.sched.request import Request

WaitingKey = Callable[["Request"], Any]
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


class KeyedRequestQueue:
    """Ordered by a key that may change from pass to pass; ties fall to (arrival, id).

    The order is taken anew when a head is asked for after something was put in or after `refresh`.
    """

    def __init__(self, key: WaitingKey) -> None:
        self._key = key
        self._requests: list[Request] = []  # last one first, so that the head is popped cheaply
        self._is_sorted = False

    def refresh(self) -> None:
        self._is_sorted = False

    def under(self, key: WaitingKey) -> KeyedRequestQueue:
        """The same requests in the order of another key."""
        other = KeyedRequestQueue(key)
        other._requests = self._requests.copy()
        return other

    def add_request(self, request: Request) -> None:
        self._requests.append(request)
        self._is_sorted = False

    prepend_request = add_request

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        self._requests.extend(requests)
        self._is_sorted = False

    def peek_request(self) -> Request:
        self._sort()
        return self._requests[-1]

    def pop_request(self) -> Request:
        self._sort()
        return self._requests.pop()

    def remove_requests(self, requests: set[Request]) -> None:
        self._requests = [request for request in self._requests if request not in requests]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        self._sort()
        return reversed(self._requests.copy())

    def _sort(self) -> None:
        if not self._is_sorted:
            self._requests.sort(key=lambda request: keyed(request, self._key), reverse=True)
            self._is_sorted = True


def keyed(request: Request, key: WaitingKey | None) -> tuple[Any, int, str]:
    """A request's place under an order of one's own."""
    assert key is not None
    return (key(request), request.arrival_time, request.request_id)


class CopiedQueue:
    """A queue to be taken from in a dry run: requests are copied as they come to the head.

    Nothing can be put in: what a dry run sets aside stays out of its way.
    """

    def __init__(self, queue: RequestQueue) -> None:
        self._rest = iter(queue)
        self._left = len(queue)
        self._head: Request | None = None

    def peek_request(self) -> Request:
        if self._head is None:
            self._head = copy.copy(next(self._rest))
            self._head.block_ids = self._head.block_ids.copy()
            if self._head.block_table is not None:
                self._head.block_table = self._head.block_table.what_if(self._head.block_ids)
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


def under(queue: RequestQueue, key: WaitingKey | None) -> RequestQueue:
    """A queue to be read in the order of a key, without asking the key that it has itself."""
    if key is not None and isinstance(queue, KeyedRequestQueue):
        return queue.under(key)
    return queue


def create_request_queue(policy: SchedulingPolicy, key: WaitingKey | None = None) -> RequestQueue:
    """Return an empty queue of the kind the scheduling policy, or a key of one's own, asks for."""
    if key is not None:
        return KeyedRequestQueue(key)
    return PriorityRequestQueue() if policy == "priority" else FCFSRequestQueue()
