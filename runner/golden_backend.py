"""The seam between the loop that runs a golden scenario and the scheduler it drives.

Everything a scheduler is asked crosses here by request id and count, never by object, so
the installed vLLM's class and this project's own one are driven by the same loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What one schedule() decided. Dictionaries keep the schedule's own order.

    `output` is the scheduler's own object, handed back for the update. `sampling` are the
    requests whose known tokens are all computed by this pass: the model samples for them.
    """

    output: Any
    tokens: dict[str, int]
    new: list[str]
    resumed: list[str]
    computed: dict[str, int]
    drafts: dict[str, int]
    encoder_inputs: dict[str, list[int]]
    encoder_freed: list[str]
    sampling: list[str]


@dataclass(frozen=True, slots=True)
class PassReport:
    """What the model and the remote store report for one pass; counts in tokens."""

    sampled: dict[str, int]
    loaded: Sequence[str] = ()
    sent: Sequence[str] = ()
    invalid_blocks: Sequence[int] = ()
    failed_loads: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Emission:
    """One output of an update; `finish_reason` is None while the request goes on."""

    request_id: str
    num_tokens: int
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class QueueContents:
    """Waiting ids in queue order; set-aside and block-holding ones as [id, status]."""

    waiting: list[str]
    skipped: list[list[str]]
    holding: list[list[str]] = field(default_factory=list)


class StoreClient(Protocol):
    """The remote KV store as a scheduler's connector asks it."""

    @property
    def has_pending_block_frees(self) -> bool: ...
    def matched_tokens(
        self, request_id: str, num_tokens: int, num_computed: int
    ) -> tuple[int | None, bool]:
        """Tokens past `num_computed` the store holds (None: not known yet); asynchronous?"""

    def load_started(self, request_id: str) -> None: ...

    def request_finished(self, request_id: str) -> bool:
        """True: the blocks are being sent and must stay until the send is reported."""


class Backend(Protocol):
    """A scheduler under test. Requests, flags and events are rows of the golden format."""

    @property
    def token_budget(self) -> int: ...
    def add_request(self, request: Row) -> None: ...
    def schedule(self, *, throttle_prefills: bool) -> Scheduled: ...
    def update(self, scheduled: Scheduled, report: PassReport) -> list[Emission]: ...
    def set_drafts(self, drafts: Mapping[str, int]) -> None:
        """Number of proposed tokens per request, after the update of a pass."""

    def compile_grammar(self, request_id: str, *, failed: bool) -> None: ...
    def finish_requests(self, request_ids: Sequence[str]) -> None: ...
    def set_pause_state(self, state: str) -> None: ...
    def reset_prefix_cache(self, *, preempt: bool) -> None: ...

    def take_lookups(self) -> dict[str, int]:
        """Prefix-cache lookups since the last call: hit tokens by request, in order."""

    def take_evictions(self) -> list[str]:
        """Requests evicted since the last call, in order."""

    def is_live(self, request_id: str) -> bool:
        """Whether the request is known and has not ended."""

    def num_unfinished(self) -> int:
        """Requests known to the scheduler, sessions waiting for input left out.

        Finished ones whose blocks are being sent are among them.
        """

    def has_finished_to_report(self) -> bool: ...
    def queue_lengths(self) -> list[int]:
        """`[running, waiting, set aside]`."""

    def num_waiting(self) -> int:
        """Length of the queue `waiting` itself, set-aside members included."""

    def queue_contents(self) -> QueueContents: ...
    def num_free_blocks(self) -> int: ...
    def num_cached_blocks(self) -> int: ...
    def free_queue(self) -> list[int]:
        """Block ids in the order in which they will be taken."""

    def block_ids(self, request_id: str) -> list[int]: ...
