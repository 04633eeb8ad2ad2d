"""What happens around the scheduler besides arrivals: grammars, next inputs, transfers, time-outs.

All of it is on the simulated clock and comes from the trace.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from schedbench.runner.remote_kv import RemoteStore
from schedbench.runner.requests import eos_after
from schedbench.runner.timers import Timers
from schedbench.sched.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedbench.runner.requests import Row
    from schedbench.sched.kv_connector import KVConnectorOutput


class World:
    """Tells the scheduler what is due. `has_remote_kv`: the trace has prefixes held elsewhere."""

    def __init__(self, *, block_size: int, has_remote_kv: bool) -> None:
        self.timers = Timers()
        self.store = RemoteStore(self.timers, block_size) if has_remote_kv else None

    def next_ns(self) -> int | None:
        return self.timers.next_ns()

    def set_time(self, now_ns: int) -> None:
        """Move the clock, and run what is due by then."""
        if self.store is not None:
            self.store.now_ns = now_ns
        self.timers.run_due(now_ns)

    def report(self, now_ns: int) -> KVConnectorOutput | None:
        """What the workers report of transfers with a pass that ends now."""
        if self.store is None:
            return None
        self.store.now_ns = now_ns
        return self.store.report()

    def has_due_transfers(self, now_ns: int) -> bool:
        """Whether the next pass will bring a report, so that it is not made in vain."""
        return self.store is not None and self.store.has_due(now_ns)

    def added(
        self,
        row: Row,
        request: Request,
        add: Callable[[Request], None],
        abort: Callable[[str], None],
    ) -> None:
        """Set the timers of a request that the scheduler has just seen."""
        if row.abort_after_ns is not None:
            at_ns = row.arrival_ns + row.abort_after_ns
            self.timers.at(at_ns, partial(abort, request.request_id))
        if row.grammar is not None:
            at_ns = row.added_ns + row.grammar["delay_ns"]
            self.timers.at(at_ns, partial(_compile, request, row.grammar))
        if row.remote_kv is not None and self.store is not None:
            self.store.add(request.request_id, row.remote_kv, row.added_ns)
        for chunk in row.chunks or ():
            at_ns = row.arrival_ns + chunk["delay_ns"]
            self.timers.at(at_ns, partial(_next_input, row, request, chunk, at_ns, add))


def _compile(request: Request, grammar: dict[str, Any]) -> None:
    assert request.grammar is not None
    request.grammar.ready = grammar["ok"]
    request.grammar.failed = not grammar["ok"]


def _next_input(
    row: Row,
    request: Request,
    chunk: dict[str, Any],
    at_ns: int,
    add: Callable[[Request], None],
) -> None:
    """Add a session's next input, or close it, unless the session is gone already."""
    if request.is_finished:
        return
    closes = chunk["prompt_tokens"] == 0  # its lengths are read by nothing then
    add(
        Request(
            request.request_id,
            num_prompt_tokens=1 if closes else chunk["prompt_tokens"],
            max_tokens=max(1, chunk["output_tokens"]),
            eos_after=eos_after(chunk["output_tokens"], row.max_tokens),
            arrival_time=at_ns,
            identity=request.identity,
            priority=request.priority,
            client_index=request.client_index,
            lora_id=request.lora_id,
            resumable=not closes,
        )
    )
