"""Waiting requests in one queue; those that hold KV blocks in another, which goes first.

    kv_holding_waiting   loaded or loading, sessions between two inputs
    waiting              all others, blocked ones at their place
    deferred_waiting     whoever of both is blocked or was set aside; for statistics only

A holder must not wait behind a request whose lack of blocks ends admission, for it keeps blocks
from it. Who is set aside goes back to the front, in the order of its queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.request_queue import (
    CopiedQueue,
    KeyedRequestQueue,
    create_request_queue,
    under,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import RequestQueue, SchedulingPolicy, WaitingKey


class OneQueue:
    """vLLM 0.33.0's waiting collections. Without `holders_first` nobody is a holder."""

    def __init__(
        self, policy: SchedulingPolicy, key: WaitingKey | None = None, *, holders_first: bool = True
    ) -> None:
        self._policy = policy
        self._holders_first = holders_first
        self.waiting = create_request_queue(policy, key)
        self.kv_holding_waiting = create_request_queue(policy, key)
        self.deferred_waiting: set[Request] = set()
        self._aside: list[Request] = []
        self._turn: RequestQueue = self.waiting

    @property
    def num_waiting(self) -> int:
        return len(self) - len(self.deferred_waiting)

    @property
    def num_skipped_waiting(self) -> int:
        return len(self.deferred_waiting)

    @property
    def num_holding_kv(self) -> int:
        return len(self.kv_holding_waiting)

    def split(self) -> tuple[list[Request], list[Request]]:
        deferred = self.deferred_waiting
        free = [request for request in self if request not in deferred]
        return free, [request for request in self if request in deferred]

    def goes_first(self, request: Request) -> bool:
        return self._home(request) is self.kv_holding_waiting

    def add(self, request: Request) -> None:
        if request.is_blocked:
            self.deferred_waiting.add(request)
        self._home(request).add_request(request)

    def add_evicted(self, request: Request) -> None:
        self.waiting.prepend_request(request)

    def begin_pass(self) -> None:
        for queue in (self.waiting, self.kv_holding_waiting):
            if isinstance(queue, KeyedRequestQueue):
                queue.refresh()

    def head(self) -> Request:
        self._turn = self.kv_holding_waiting or self.waiting
        return self._turn.peek_request()

    def pop_head(self) -> None:
        self.deferred_waiting.discard(self._turn.pop_request())

    def set_head_aside(self) -> None:
        self.put_aside(self._turn.pop_request())

    def put_aside(self, request: Request) -> None:
        self.deferred_waiting.add(request)
        self._aside.append(request)

    def end_pass(self) -> None:
        """Put each back where its blocks say; they may be gone since it was queued."""
        for request in reversed(self._aside):
            self._home(request).prepend_request(request)
        self._aside.clear()

    def remove(self, requests: set[Request]) -> None:
        self.waiting.remove_requests(requests)
        self.kv_holding_waiting.remove_requests(requests)
        self.deferred_waiting -= requests

    remove_stopped = remove

    def what_if(self, key: WaitingKey | None = None) -> OneQueue:
        other = OneQueue(self._policy, key, holders_first=self._holders_first)
        other.waiting = CopiedQueue(under(self.waiting, key))
        other.kv_holding_waiting = CopiedQueue(under(self.kv_holding_waiting, key))
        return other

    def __len__(self) -> int:
        return len(self.waiting) + len(self.kv_holding_waiting)

    def __iter__(self) -> Iterator[Request]:
        yield from self.kv_holding_waiting
        yield from self.waiting

    def _home(self, request: Request) -> RequestQueue:
        holds = self._holders_first and request.holds_kv
        return self.kv_holding_waiting if holds else self.waiting
