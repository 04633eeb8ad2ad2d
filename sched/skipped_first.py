"""Waiting requests in two queues: who was set aside once goes first.

    waiting          new, evicted and continued requests
    skipped_waiting  blocked ones, and those set aside in an earlier pass
    aside            those set aside in this pass; at its end they go before `skipped_waiting`

fcfs empties `skipped_waiting` before it looks at `waiting`, so that a request once set aside
overtakes older ones; priority compares the two heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.request_queue import (
    CopiedQueue,
    KeyedRequestQueue,
    create_request_queue,
    keyed,
    under,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import RequestQueue, SchedulingPolicy, WaitingKey


class SkippedFirst:
    """vLLM 0.26.0's two waiting collections and the pass's own third."""

    num_holding_kv = 0

    def __init__(
        self,
        policy: SchedulingPolicy,
        key: WaitingKey | None = None,
        *,
        stopped_leave_skipped: bool = False,
    ) -> None:
        self._policy = policy
        self._stopped_leave_skipped = stopped_leave_skipped
        self._key = key  # an order of one's own, instead of the policy's
        self.waiting = create_request_queue(policy, key)
        self.skipped_waiting = create_request_queue(policy, key)
        self._aside = create_request_queue(policy)
        self._turn: RequestQueue = self.waiting

    @property
    def num_waiting(self) -> int:
        return len(self.waiting)

    @property
    def num_skipped_waiting(self) -> int:
        return len(self.skipped_waiting)

    def split(self) -> tuple[list[Request], list[Request]]:
        return list(self.waiting), list(self.skipped_waiting)

    def goes_first(self, request: Request) -> bool:
        """Under fcfs only, where the order of iteration says it."""
        del request
        return False

    def add(self, request: Request) -> None:
        """Queue by status: a blocked request stands in `skipped_waiting` from the start."""
        (self.skipped_waiting if request.is_blocked else self.waiting).add_request(request)

    def add_evicted(self, request: Request) -> None:
        self.waiting.prepend_request(request)

    def begin_pass(self) -> None:
        """Take an order of one's own anew, for its keys may change with time."""
        for queue in (self.waiting, self.skipped_waiting):
            if isinstance(queue, KeyedRequestQueue):
                queue.refresh()

    def head(self) -> Request:
        """Whose turn it is; there must be somebody."""
        self._turn = self._choose()
        return self._turn.peek_request()

    def pop_head(self) -> None:
        """Take the request that `head` gave off its queue."""
        self._turn.pop_request()

    def set_head_aside(self) -> None:
        self._aside.prepend_request(self._turn.pop_request())

    def put_aside(self, request: Request) -> None:
        """Set a request aside that is off its queue already."""
        self._aside.prepend_request(request)

    def end_pass(self) -> None:
        """Put those set aside before the older ones in `skipped_waiting`, in their own order."""
        if self._aside:
            self.skipped_waiting.prepend_requests(self._aside)
            self._aside = create_request_queue(self._policy)

    def remove(self, requests: set[Request]) -> None:
        self.waiting.remove_requests(requests)
        self.skipped_waiting.remove_requests(requests)

    def remove_stopped(self, requests: set[Request]) -> None:
        """Remove requests that stopped while preempted."""
        self.waiting.remove_requests(requests)
        if self._stopped_leave_skipped:
            self.skipped_waiting.remove_requests(requests)

    def what_if(self, key: WaitingKey | None = None) -> SkippedFirst:
        other = SkippedFirst(self._policy, key)
        other.waiting = CopiedQueue(under(self.waiting, key))
        other.skipped_waiting = CopiedQueue(under(self.skipped_waiting, key))
        return other

    def __len__(self) -> int:
        return len(self.waiting) + len(self.skipped_waiting)

    def __iter__(self) -> Iterator[Request]:
        yield from self.skipped_waiting
        yield from self.waiting

    def _choose(self) -> RequestQueue:
        if not (self.waiting and self.skipped_waiting):
            return self.waiting or self.skipped_waiting
        if self._key is not None:
            heads = (self.skipped_waiting, self.waiting)
            return min(heads, key=lambda queue: keyed(queue.peek_request(), self._key))
        if self._policy == "fcfs":
            return self.skipped_waiting
        older = self.waiting.peek_request() < self.skipped_waiting.peek_request()
        return self.waiting if older else self.skipped_waiting
