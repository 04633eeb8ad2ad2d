"""The world around the scheduler in a golden scenario: model, remote KV store, grammars.

Each is a function of the request rows and of the pass index alone, so every scheduler is
told the same things at the same passes.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from schedbench.runner.golden_backend import Scheduled

Row = dict[str, Any]


class Model:
    """Samples one token a pass and accepts drafts as the request rows prescribe."""

    def __init__(self, num_speculative_tokens: int) -> None:
        self._num_speculative_tokens = num_speculative_tokens
        self._accept: dict[str, list[int]] = {}
        self._drafts: dict[str, list[int]] = {}
        self._verified: Counter[str] = Counter()
        self._proposed: Counter[str] = Counter()

    def add_request(self, request: Row) -> None:
        every_draft = [self._num_speculative_tokens]
        self._accept.setdefault(request["id"], request.get("accept") or every_draft)
        self._drafts.setdefault(request["id"], request.get("drafts") or every_draft)

    def sample(self, scheduled: Scheduled) -> dict[str, int]:
        """Tokens each sampling request gets: one, and the drafts that hold."""
        return {
            request_id: 1 + self._accepted(request_id, scheduled.drafts.get(request_id, 0))
            for request_id in scheduled.sampling
        }

    def _accepted(self, request_id: str, scheduled_drafts: int) -> int:
        if not scheduled_drafts:
            return 0
        accept = self._accept[request_id]
        turn = self._verified[request_id]
        self._verified[request_id] += 1
        return min(accept[turn % len(accept)], scheduled_drafts)

    def propose(self, scheduled: Scheduled) -> dict[str, int]:
        """Drafts proposed after a pass, for the requests that sampled in it."""
        return {request_id: self._proposal(request_id) for request_id in scheduled.sampling}

    def _proposal(self, request_id: str) -> int:
        drafts = self._drafts[request_id]
        turn = self._proposed[request_id]
        self._proposed[request_id] += 1
        return min(drafts[turn % len(drafts)], self._num_speculative_tokens)


@dataclass(slots=True)
class _Transfer:
    request_id: str
    due_pass: int


@dataclass(slots=True)
class RemoteStore:
    """Holds prefixes of prompts; loads and sends take a number of passes.

    `hold_frees` is the first and last pass in which frees are announced.
    """

    hold_frees: list[int] | None = None
    now: int = 0
    _entries: dict[str, Row] = field(default_factory=dict)
    _loads: list[_Transfer] = field(default_factory=list)
    _sends: list[_Transfer] = field(default_factory=list)
    _just_loaded: list[str] = field(default_factory=list)

    def add_request(self, request: Row) -> None:
        if remote := request.get("remote_kv"):
            self._entries[request["id"]] = dict(remote)

    @property
    def has_pending_block_frees(self) -> bool:
        return self.hold_frees is not None and (
            self.hold_frees[0] <= self.now <= self.hold_frees[1]
        )

    def matched_tokens(
        self, request_id: str, num_tokens: int, num_computed: int
    ) -> tuple[int | None, bool]:
        entry = self._entries.get(request_id)
        if entry is None:
            return 0, False
        if self.now < entry.get("unknown_until", 0):
            return None, False
        asynchronous = bool(entry.get("async", True))
        # A synchronous load leaves one token to compute, or there is nothing to sample from.
        limit = num_tokens if asynchronous else num_tokens - 1
        external = min(entry["tokens"], limit) - num_computed
        return (external, asynchronous) if external > 0 else (0, False)

    def load_started(self, request_id: str) -> None:
        entry = self._entries[request_id]
        if entry.get("async", True):
            self._loads.append(_Transfer(request_id, self.now + entry.get("delay", 0)))
        if entry.get("once"):
            entry["tokens"] = 0

    def request_finished(self, request_id: str) -> bool:
        entry = self._entries.get(request_id, {})
        loading = [*self._just_loaded, *(load.request_id for load in self._loads)]
        if request_id in loading or not entry.get("send_delay"):
            return False
        self._sends.append(_Transfer(request_id, self.now + entry["send_delay"]))
        return True

    def take_loaded(self, index: int) -> list[str]:
        """Loads reported with the update of pass `index`."""
        self._just_loaded = _take_due(self._loads, index)
        return self._just_loaded

    def take_sent(self, index: int) -> list[str]:
        """Sends reported with the update of pass `index`."""
        return _take_due(self._sends, index)


def _take_due(transfers: list[_Transfer], index: int) -> list[str]:
    due = [transfer for transfer in transfers if transfer.due_pass <= index]
    transfers[:] = [transfer for transfer in transfers if transfer.due_pass > index]
    return [transfer.request_id for transfer in due]


class GrammarCompiler:
    """Compiles each request's grammar `delay` passes after its arrival."""

    def __init__(self) -> None:
        self._pending: list[tuple[int, str, bool]] = []

    def add_request(self, request: Row, index: int) -> None:
        if grammar := request.get("grammar"):
            ready_pass = index + grammar.get("delay", 0)
            self._pending.append((ready_pass, request["id"], bool(grammar.get("fail"))))

    def take_ready(self, index: int) -> list[tuple[str, bool]]:
        """Requests whose grammar is known before pass `index`, and whether it failed."""
        ready = [(request_id, failed) for at, request_id, failed in self._pending if at <= index]
        self._pending = [entry for entry in self._pending if entry[0] > index]
        return ready
