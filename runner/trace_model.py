"""The model of a replay: it says what the trace says.

Output lengths, accepted drafts and proposals come from the trace, never from sampling, so that no
runner can change a decision. Where the trace leaves acceptance open, it is drawn by counter: the
n-th verification of a row is the same whatever was scheduled before it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.runner.requests import Row
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request

DRAWS_TO_ONE = 2.0**64


class TraceModel:
    """`acceptance`: chance that a draft is accepted, if those before it were; a row's own wins."""

    def __init__(self, num_speculative_tokens: int, acceptance: float, seed: int) -> None:
        self._num_drafts = num_speculative_tokens
        self._acceptance = acceptance
        self._seed = seed

    def sample(self, output: SchedulerOutput, requests: dict[str, Request]) -> dict[str, int]:
        """Tokens for every request whose known tokens are all computed by this pass."""
        sampled = dict.fromkeys(output.num_scheduled_tokens, 1)
        for grant in output.prefills:
            if grant.request.is_prefill_chunk:
                del sampled[grant.request.request_id]
        for request_id, num_drafts in output.scheduled_spec_decode_tokens.items():
            if request_id in sampled:
                sampled[request_id] += self._accepted(requests[request_id].tag, num_drafts)
        return sampled

    def proposals(self, sampled: dict[str, int], requests: dict[str, Request]) -> dict[str, int]:
        """Drafts proposed after a pass for the requests that sampled in it."""
        return {
            request_id: self._proposal(requests[request_id].tag)
            for request_id in sampled
            if request_id in requests
        }

    def _accepted(self, row: Row, num_drafts: int) -> int:
        turn = row.verifications
        row.verifications += 1
        spec = row.spec or {}
        if told := spec.get("accepted"):
            return int(min(told[turn % len(told)], num_drafts))
        rate = self._acceptance if spec.get("rate") is None else spec["rate"]
        accepted = 0
        while accepted < num_drafts and self._draw(row.row, turn, accepted) < rate:
            accepted += 1
        return accepted

    def _proposal(self, row: Row) -> int:
        told = (row.spec or {}).get("drafts")
        if not told:
            return self._num_drafts
        turn = row.proposals
        row.proposals += 1
        return int(min(told[turn % len(told)], self._num_drafts))

    def _draw(self, row: int, turn: int, draft: int) -> float:
        key = f"{self._seed}/{row}/{turn}/{draft}".encode()
        digest = hashlib.blake2b(key, digest_size=8).digest()
        return int.from_bytes(digest, "little") / DRAWS_TO_ONE
