"""A KV store elsewhere, as a trace describes it: a deterministic connector on the simulated clock.

A row's `remote_kv` says how long a prefix the store holds, until when a lookup is undecided, how
long a load takes (none: it is there in the pass that asks), how much of it arrives intact, and how
long a finished request's blocks stay because they are being sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedbench.sched.kv_connector import KVConnectorOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedbench.runner.timers import Timers
    from schedbench.sched.request import Request


@dataclass(slots=True)
class Entry:
    """What the store holds for a request, in tokens from position 0; times in ns."""

    prefix_tokens: int
    decided_ns: int
    load_ns: int | None
    valid_tokens: int
    send_ns: int | None


@dataclass(slots=True)
class Load:
    """A load that has not been reported yet, or a synchronous one that went wrong."""

    request: Request
    due_ns: int
    first_token: int
    end_token: int
    valid_tokens: int
    is_async: bool


class RemoteStore:
    """`KVConnector` for a replay; `now_ns` is set by the loop before each half of a pass."""

    def __init__(self, timers: Timers, block_size: int) -> None:
        self.now_ns = 0
        self._timers = timers
        self._block_size = block_size
        self._entries: dict[str, Entry] = {}
        self._loads: list[Load] = []
        self._arrived: list[Request] = []  # with the last report
        self._sends: list[tuple[int, str]] = []

    def add(self, request_id: str, facts: Mapping[str, Any], added_ns: int) -> None:
        """Take in a row's `remote_kv`; lookups are decided so long after the request came."""
        prefix = facts["prefix_tokens"]
        valid = facts["valid_tokens"]
        decided_ns = added_ns + (facts["lookup_ns"] or 0)
        self._entries[request_id] = Entry(
            prefix,
            decided_ns,
            facts["load_ns"],
            prefix if valid is None else valid,
            facts["send_ns"],
        )
        self._wake(decided_ns)

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """A synchronous load leaves one token to compute, or there is nothing to sample from.

        A prompt of one token is not offered at all: fully loaded it would have nothing computed
        (its last token is computed again), and vLLM would ask for it again for ever.
        """
        entry = self._entries.get(request.request_id)
        if entry is None:
            return 0, False
        if self.now_ns < entry.decided_ns:
            return None, False
        is_async = entry.load_ns is not None
        limit = request.num_tokens - (not is_async or request.num_tokens == 1)
        external = min(entry.prefix_tokens, limit) - num_computed_tokens
        return (external, is_async) if external > 0 else (0, False)

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        if not num_external_tokens:
            return
        entry = self._entries[request.request_id]
        limit = request.num_tokens - (entry.load_ns is None)
        end = min(entry.prefix_tokens, limit)
        load = Load(
            request,
            self.now_ns + (entry.load_ns or 0),
            end - num_external_tokens,
            end,
            entry.valid_tokens,
            entry.load_ns is not None,
        )
        if load.is_async or load.valid_tokens < end:
            self._loads.append(load)
            self._wake(load.due_ns)
        entry.prefix_tokens = min(entry.prefix_tokens, entry.valid_tokens)  # the rest is lost

    def request_finished(self, request: Request) -> bool:
        """Blocks are sent, unless they are still being loaded or the load has just failed."""
        entry = self._entries.get(request.request_id)
        if entry is None or entry.send_ns is None:
            return False
        if request in self._arrived or any(load.request is request for load in self._loads):
            return False
        due_ns = self.now_ns + entry.send_ns
        self._sends.append((due_ns, request.request_id))
        self._wake(due_ns)
        return True

    def has_pending_block_frees(self) -> bool:
        """A store that sends reports when it has sent, and announces nothing."""
        return False

    @property
    def requires_kv_delivery(self) -> bool | None:
        return None

    def report(self) -> KVConnectorOutput | None:
        """What the workers tell with a pass that ends now."""
        arrived = [load for load in self._loads if load.due_ns <= self.now_ns]
        sent = [request_id for due_ns, request_id in self._sends if due_ns <= self.now_ns]
        self._arrived = [load.request for load in arrived if load.is_async]
        if not arrived and not sent:
            return None
        self._loads = [load for load in self._loads if load.due_ns > self.now_ns]
        self._sends = [send for send in self._sends if send[0] > self.now_ns]
        return KVConnectorOutput(
            finished_recving=tuple(load.request.request_id for load in arrived if load.is_async),
            finished_sending=tuple(sent),
            invalid_block_ids=frozenset(
                block_id for load in arrived for block_id in self._invalid(load)
            ),
        )

    def has_due(self, now_ns: int) -> bool:
        return any(load.due_ns <= now_ns for load in self._loads) or any(
            due_ns <= now_ns for due_ns, _ in self._sends
        )

    def _invalid(self, load: Load) -> list[int]:
        if load.request.is_finished:
            return []
        first = max(load.first_token, load.valid_tokens) // self._block_size
        end = -(-load.end_token // self._block_size)
        return load.request.block_ids[first:end] if load.valid_tokens < load.end_token else []

    def _wake(self, due_ns: int) -> None:
        self._timers.at(due_ns, _nothing)


def _nothing() -> None:
    """A time at which the engine has something new to see."""
