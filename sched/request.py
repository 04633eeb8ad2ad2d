"""One request as the scheduler sees it: counts of tokens, a status, a block table.

Token values never matter to the scheduler, only how many are known and computed:

    |<---------- num_prompt_tokens ---------->|<-- output -->|
    |<------------------- num_tokens ----------------------->|
    |<--- num_computed_tokens --->|<-- still to be computed -->|

After an eviction `num_computed_tokens` is 0 and the output stays, so that the whole of
`num_tokens` is computed again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Protocol


class RequestStatus(IntEnum):
    """vLLM's statuses; those above PREEMPTED are final."""

    WAITING = 1
    RUNNING = 2
    PREEMPTED = 3
    FINISHED_STOPPED = 4
    FINISHED_LENGTH_CAPPED = 5
    FINISHED_ABORTED = 6

    @property
    def is_finished(self) -> bool:
        return self > RequestStatus.PREEMPTED


FINISH_REASON = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
}


class PrefixIdentity(Protocol):
    """Names the content of a request's full blocks, up to and with the block asked for.

    Two requests share the first n blocks exactly when their hashes of block n - 1 are equal.
    """

    def block_hash(self, index: int) -> int:
        """Hash of full block `index`, chained over all tokens before it."""
        ...


class Request:
    """Mutable state of one request. Times are integer ns, counts are tokens."""

    __slots__ = (
        "arrival_time",
        "block_ids",
        "client_index",
        "eos_after",
        "identity",
        "is_prefill_chunk",
        "lora_id",
        "max_tokens",
        "num_cached_blocks",
        "num_computed_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "num_tokens",
        "priority",
        "request_id",
        "status",
        "tag",
    )

    def __init__(
        self,
        request_id: str,
        *,
        num_prompt_tokens: int,
        max_tokens: int,
        arrival_time: int,
        identity: PrefixIdentity,
        eos_after: int | None = None,
        priority: int = 0,
        client_index: int = 0,
        lora_id: int = 0,
        tag: Any = None,
    ) -> None:
        self.request_id = request_id
        self.arrival_time = arrival_time
        self.priority = priority
        self.client_index = client_index
        self.lora_id = lora_id  # 0: the base model
        self.max_tokens = max_tokens
        self.eos_after = eos_after  # the model ends by itself at this many output tokens
        self.identity = identity
        self.tag = tag  # the caller's own; never read in sched/

        self.status = RequestStatus.WAITING
        self.num_prompt_tokens = num_prompt_tokens
        self.num_tokens = num_prompt_tokens
        self.num_computed_tokens = 0
        self.is_prefill_chunk = False  # the last pass left known tokens uncomputed
        self.num_preemptions = 0
        self.block_ids: list[int] = []
        self.num_cached_blocks = 0  # leading blocks that carry a hash

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    def __lt__(self, other: Request) -> bool:
        """Priority order: smaller first, then older, then the id as a string ("10" < "9")."""
        if self.priority != other.priority:
            return self.priority < other.priority
        if self.arrival_time != other.arrival_time:
            return self.arrival_time < other.arrival_time
        return self.request_id < other.request_id

    def __repr__(self) -> str:
        return (
            f"Request({self.request_id!r}, {self.status.name}, "
            f"computed {self.num_computed_tokens}/{self.num_tokens})"
        )
