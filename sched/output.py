"""What the two halves hand over: a pass to execute, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from schedbench.sched.kv_connector import KVConnectorOutput
    from schedbench.sched.request import Request
    from schedbench.sched.return_path import ClientOutputs
    from schedbench.sched.verdicts import Limit, Verdict


class PrefillGrant(NamedTuple):
    """Known tokens granted, drafts apart: `num_new_tokens` after `num_computed_tokens`."""

    request: Request
    num_computed_tokens: int
    num_new_tokens: int


class Victim(NamedTuple):
    """A request evicted in a pass, and the computed tokens thrown away with it."""

    request: Request
    num_computed_tokens: int


@dataclass(slots=True)
class SchedulerOutput:
    """One pass, as decided. Lists are in the order of the decisions.

    `num_scheduled_tokens` is ordered as vLLM orders it: running requests, then admissions.
    """

    num_scheduled_tokens: dict[str, int]
    scheduled_new_reqs: list[Request]
    scheduled_resumed_reqs: list[Request]
    scheduled_running_reqs: list[Request]
    scheduled_spec_decode_tokens: dict[str, int]  # how many drafts are among the tokens
    scheduled_encoder_inputs: dict[str, list[int]]  # indices of the items to encode
    new_block_ids: dict[str, list[int]]  # blocks added; of an admission, its whole table
    free_encoder_mm_hashes: list[str]  # encoder outputs evicted since the last pass
    finished_req_ids: set[str]  # finished since the last pass

    token_budget: int
    num_put_aside: int  # decodes that are scheduled and not listed (steady.py)
    prefills: list[PrefillGrant]
    decode_tokens: int
    context_tokens: int  # computed before this pass, summed over the requests scheduled
    victims: list[Victim]  # of the running loop
    reset_victims: list[Victim]  # of cache resets since the pass before was scheduled
    set_aside: list[tuple[Request, Verdict]]
    lookups: dict[str, int]  # tokens found in the prefix cache, for all that were looked up

    running_stop: Verdict
    admission_stop: Verdict
    binding_limit: Limit
    admissions_cancelled: int
    admissions_cancelled_fit: int
    budget_stranded: int

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values()) + self.num_put_aside

    @property
    def num_seqs(self) -> int:
        """Requests scheduled, listed or not."""
        return len(self.num_scheduled_tokens) + self.num_put_aside


@dataclass(slots=True)
class ModelRunnerOutput:
    """What the model returned: how many tokens each request got. Absent: none (mid-prefill)."""

    num_sampled_tokens: dict[str, int]
    kv_connector_output: KVConnectorOutput | None = None


@dataclass(slots=True)
class EngineCoreOutputs:
    """What came of a pass. Lists are in the order of the pass."""

    emitted: list[Request] = field(default_factory=list)
    num_new_tokens: dict[str, int] = field(default_factory=dict)  # where it is not 1
    reasons: dict[Request, str] = field(default_factory=dict)  # of emissions that ended something
    finished: list[tuple[Request, str]] = field(default_factory=list)  # with vLLM's reason
    errors: list[Request] = field(default_factory=list)  # finished without a token
    segments_done: list[Request] = field(default_factory=list)  # sessions that go on
    stopped_running: list[Request] = field(default_factory=list)
    stopped_waiting: list[Request] = field(default_factory=list)  # stopped while evicted
    verdicts: list[tuple[Request | str, Verdict]] = field(default_factory=list)
    by_client: dict[int, ClientOutputs] | None = None  # where somebody listens
