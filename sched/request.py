"""One request as the scheduler sees it: counts of tokens, a status, a block table.

Token values never matter to the scheduler, only how many are known and computed:

    |<---------- num_prompt_tokens ---------->|<-- output -->|
    |<------------------- num_tokens ----------------------->|<- num_spec_tokens ->|
    |<--- num_computed_tokens --->|<-- still to be computed -->|

After an eviction `num_computed_tokens` is 0 and the output stays, so that the whole of
`num_tokens` is computed again. With passes in flight `num_computed_tokens` runs ahead of
`num_tokens` by `num_output_placeholders`, tokens that are sure to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from schedbench.sched.kv_cache.block_table import BlockTable


class RequestStatus(IntEnum):
    """vLLM's statuses, in vLLM's order; those above PREEMPTED are final."""

    WAITING = 1
    WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR = 2
    WAITING_FOR_REMOTE_KVS = 3
    WAITING_FOR_STREAMING_REQ = 4
    RUNNING = 5
    PREEMPTED = 6
    FINISHED_STOPPED = 7
    FINISHED_LENGTH_CAPPED = 8
    FINISHED_ABORTED = 9
    FINISHED_ERROR = 10


FINISH_REASON = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_ERROR: "error",
}


class PrefixIdentity(Protocol):
    """Names the content of a request's full blocks, up to and with the block asked for.

    Two requests share the first n blocks exactly when their names of block n - 1 are equal. A name
    is `key << PLACE_BITS | place` (kv_cache/block_table.py): names of blocks that follow on each
    other under one key are consecutive, mostly from place 0 on; where there is nothing of the
    kind, each block has a key of its own.
    """

    def block_hash(self, index: int) -> int:
        """Name of full block `index`, which stands for all tokens before it as well."""
        ...

    def stretches(self, first: int, end: int) -> Iterable[range]:
        """Names of full blocks `first` to `end - 1`, those of each key together."""
        ...

    def next_input(
        self, num_tokens: int, num_kept: int, update: StreamingUpdate, *, redo: bool
    ) -> None:
        """Go on with a session's next input: of `num_tokens` known the first `num_kept` stay.

        Hashes of blocks behind those are made anew if `redo`, else they stay as they are.
        """
        ...

    def rehash(self) -> None:
        """Make all hashes anew from the tokens known now."""
        ...


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """A multi-modal item: where its placeholders stand, and how many embeddings they take."""

    offset: int  # tokens, from the start of the prompt
    num_tokens: int
    num_embeds: int
    identifier: str  # equal identifiers are one item, encoded once

    @property
    def end(self) -> int:
        """The first token behind it."""
        return self.offset + self.num_tokens


@dataclass(slots=True)
class Grammar:
    """Structured output: whether the grammar is compiled, and how many tokens it accepts."""

    ready: bool = False
    failed: bool = False
    tokens_left: int | None = None  # None: it accepts whatever comes

    def accept_tokens(self, count: int) -> bool:
        """Advance by `count` tokens; False if it rejects one of them."""
        if self.tokens_left is None:
            return True
        self.tokens_left -= count
        return self.tokens_left >= 0


@dataclass(frozen=True, slots=True)
class StreamingUpdate:
    """The next input of a streaming session. Times in ns."""

    num_prompt_tokens: int
    max_tokens: int
    arrival_time: int
    eos_after: int | None = None
    min_tokens: int = 0
    encoder_inputs: tuple[EncoderInput, ...] = ()
    content: Any = None  # what the request's identity makes of it


class Request:
    """Mutable state of one request. Times are integer ns, counts are tokens."""

    __slots__ = (
        "arrival_time",
        "block_ids",
        "block_table",
        "client_index",
        "drops_stale_output",
        "encoder_inputs",
        "eos_after",
        "grammar",
        "identity",
        "is_prefill_chunk",
        "last_sched_seq",
        "lora_id",
        "max_tokens",
        "min_tokens",
        "num_cached_blocks",
        "num_computed_tokens",
        "num_output_placeholders",
        "num_outputs_to_discard",
        "num_preemptions",
        "num_prompt_tokens",
        "num_spec_tokens",
        "num_stale_output_tokens",
        "num_tokens",
        "output_start",
        "priority",
        "request_id",
        "resumable",
        "status",
        "streaming_queue",
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
        min_tokens: int = 0,
        eos_after: int | None = None,
        priority: int = 0,
        client_index: int = 0,
        lora_id: int = 0,
        encoder_inputs: tuple[EncoderInput, ...] = (),
        grammar: Grammar | None = None,
        resumable: bool = False,
        tag: Any = None,  # noqa: ANN401 - the caller's own
    ) -> None:
        self.request_id = request_id
        self.arrival_time = arrival_time
        self.priority = priority
        self.client_index = client_index
        self.lora_id = lora_id  # 0: the base model
        self.max_tokens = max_tokens
        self.min_tokens = min_tokens
        self.eos_after = eos_after  # the model ends by itself at this many output tokens
        self.identity = identity
        self.encoder_inputs = encoder_inputs
        self.grammar: Grammar | None = None
        self.resumable = resumable  # a streaming session: more input may follow
        self.streaming_queue: deque[StreamingUpdate | None] | None = None  # None in it: the end
        self.tag = tag  # never read in sched/

        self.status = RequestStatus.WAITING
        if grammar is not None:
            self.set_grammar(grammar)
        self.num_prompt_tokens = num_prompt_tokens
        self.num_tokens = num_prompt_tokens
        self.output_start = num_prompt_tokens  # of a session: where this turn's output begins
        self.num_computed_tokens = 0
        self.num_spec_tokens = 0  # drafts to be verified in the next pass
        self.num_output_placeholders = 0  # tokens of passes in flight
        self.num_outputs_to_discard = 0  # outputs in flight that a cache reset made stale
        self.num_stale_output_tokens = 0  # tokens in flight that an eviction made stale
        self.drops_stale_output = False  # else they are delivered when they come
        self.last_sched_seq = 0  # the last non-empty pass it was scheduled in
        self.is_prefill_chunk = False  # the last pass left known tokens uncomputed
        self.num_preemptions = 0
        self.block_ids: list[int] = []
        self.block_table: BlockTable | None = None  # of these
        self.num_cached_blocks = 0  # leading blocks that carry a hash

    def set_grammar(self, grammar: Grammar) -> None:
        """Let the request wait for a grammar from the start, as structured output does."""
        self.grammar = grammar
        self.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.output_start

    @property
    def is_finished(self) -> bool:
        return self.status > RequestStatus.PREEMPTED

    @property
    def holds_kv(self) -> bool:
        """Whether a waiting request has computed tokens, or blocks being loaded."""
        return self.num_computed_tokens > 0 or self.status is RequestStatus.WAITING_FOR_REMOTE_KVS

    @property
    def is_blocked(self) -> bool:
        """Waiting for something outside: a grammar, a load, the next input."""
        return RequestStatus.WAITING < self.status < RequestStatus.RUNNING

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
