"""Where requests wait, and whose turn it is: one interface, an implementation for each order.

skipped_first.py    who was set aside once goes before all others (0.26.0)
one_queue.py        one queue in its own order, holders of KV blocks before it (0.33.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from schedbench.sched.one_queue import OneQueue
from schedbench.sched.skipped_first import SkippedFirst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request
    from schedbench.sched.request_queue import RequestQueue, WaitingKey


class WaitingQueues(Protocol):
    """All requests that do not run. The order of iteration is that of the collections."""

    waiting: RequestQueue

    @property
    def num_waiting(self) -> int:
        """Requests that nothing kept back so far."""
        ...

    @property
    def num_skipped_waiting(self) -> int:
        """Requests that are blocked, or were set aside in an earlier pass."""
        ...

    @property
    def num_holding_kv(self) -> int:
        """Requests in a queue of their own because they hold KV blocks."""
        ...

    def split(self) -> tuple[list[Request], list[Request]]:
        """Those that nothing kept back so far, and the others, each in order."""
        ...

    def goes_first(self, request: Request) -> bool:
        """Whether it goes before others whatever the order among them is."""
        ...

    def add(self, request: Request) -> None:
        """Queue a new request, or a session that goes on."""
        ...

    def add_evicted(self, request: Request) -> None:
        """Queue a victim, before others of its kind."""
        ...

    def begin_pass(self) -> None:
        """Take an order of one's own anew, for its keys may change with time."""
        ...

    def head(self) -> Request:
        """Whose turn it is; there must be somebody."""
        ...

    def pop_head(self) -> None:
        """Take the request that `head` gave off its queue."""
        ...

    def set_head_aside(self) -> None:
        """Let the request that `head` gave wait until the next pass."""
        ...

    def put_aside(self, request: Request) -> None:
        """Set a request aside that is off its queue already."""
        ...

    def end_pass(self) -> None:
        """Put those set aside back."""
        ...

    def remove(self, requests: set[Request]) -> None:
        """Take out requests that are ended from outside."""
        ...

    def remove_stopped(self, requests: set[Request]) -> None:
        """Take out requests that stopped while evicted."""
        ...

    def what_if(self, key: WaitingKey | None = None) -> WaitingQueues:
        """Return queues of the same requests, each copied when it comes to the head.

        `key` is the order of one's own that the dry run may ask, where there is one.
        """
        ...

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...


def create_waiting_queues(config: SchedulerConfig, key: WaitingKey | None) -> WaitingQueues:
    """Return the empty collections that a release has; `key` is an order of one's own."""
    behaviour = config.behaviour
    if behaviour.one_waiting_queue:
        return OneQueue(config.policy, key, holders_first=behaviour.holders_first)
    return SkippedFirst(config.policy, key, stopped_leave_skipped=behaviour.stopped_skipped)
