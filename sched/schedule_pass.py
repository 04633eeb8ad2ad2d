"""One pass's working state: what is left to spend, what was granted, who was evicted.

It lives from the top of `schedule` to its end and becomes a `SchedulerOutput`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.errors import InvariantError
from schedbench.sched.output import PrefillGrant, SchedulerOutput, Victim
from schedbench.sched.verdicts import LIMIT_OF, Limit, Verdict

if TYPE_CHECKING:
    from schedbench.sched.encoder_cache import EncoderCache, EncoderGrant
    from schedbench.sched.request import Request


class SchedulePass:
    """Budgets in tokens; every grant goes through `grant_*`, every undo through `undo`."""

    __slots__ = (
        "admission_stop",
        "ceiling",
        "context_tokens",
        "cut_by_budget",
        "cut_by_encoder",
        "decode_tokens",
        "defer_prefills",
        "draft_rows",
        "drafts",
        "encoder_budget",
        "encoder_grant",
        "encoder_inputs",
        "grants_below_0",
        "input_budget",
        "lookups",
        "loras",
        "new",
        "new_block_ids",
        "num_put_aside",
        "num_scheduled_tokens",
        "prefill_scheduled",
        "prefills",
        "reach",
        "resumed",
        "running",
        "running_stop",
        "set_aside",
        "start_budget",
        "threshold",
        "token_budget",
        "victims",
    )

    def __init__(
        self,
        token_budget: int,
        encoder_budget: int,
        *,
        threshold: int,
        reach: int = 0,
        defer_prefills: bool = False,
        input_budget: int | None = None,
        draft_rows: int = 0,
    ) -> None:
        """Open a pass.

        Args:
            token_budget: tokens that may be scheduled.
            encoder_budget: embeddings that may be encoded.
            threshold: most tokens of one request; 0 means no cap.
            reach: known tokens that several MTP modules read past a chunk; 0 for other drafters.
            defer_prefills: leave prefill to a later pass.
            input_budget: rows that may be fed to the model; None: as many as tokens.
            draft_rows: rows that each scheduled request takes beside its tokens.
        """
        self.start_budget = token_budget
        self.input_budget = token_budget if input_budget is None else input_budget
        self.draft_rows = draft_rows
        self.ceiling = min(token_budget, self.input_budget - draft_rows)
        self.token_budget = self.ceiling  # what the next request may have; may fall below 0
        self.encoder_budget = encoder_budget
        self.threshold = threshold
        self.reach = reach
        self.defer_prefills = defer_prefills
        self.prefill_scheduled = False  # by the running loop; stays if that request is evicted
        self.drafts: dict[str, int] = {}
        self.encoder_inputs: dict[str, list[int]] = {}
        self.encoder_grant: EncoderGrant | None = None  # of the request in hand
        self.num_scheduled_tokens: dict[str, int] = {}
        self.num_put_aside = 0  # decodes that are scheduled and not listed (steady.py)
        self.running: list[Request] = []
        self.new: list[Request] = []
        self.resumed: list[Request] = []
        self.new_block_ids: dict[str, list[int]] = {}
        self.lookups: dict[str, int] = {}  # tokens found in the prefix cache, admitted or not
        self.victims: list[Victim] = []
        self.set_aside: list[tuple[Request, Verdict]] = []
        self.loras: set[int] = set()
        self.prefills: list[PrefillGrant] = []
        self.decode_tokens = 0
        self.context_tokens = 0
        self.cut_by_budget = False
        self.cut_by_encoder = False
        self.grants_below_0 = False  # whether one was made; it may have been undone since
        self.running_stop = Verdict.LIST_DONE
        self.admission_stop = Verdict.QUEUES_EMPTY

    def put_aside(self, num_decodes: int, context_tokens: int) -> None:
        """Spend budget on decodes that need not be looked at one by one."""
        self.num_put_aside = num_decodes
        self.token_budget -= num_decodes
        self.decode_tokens += num_decodes
        self.context_tokens += context_tokens

    def grant_running(
        self, request: Request, num_new_tokens: int, num_drafts: int, new_blocks: list[int]
    ) -> None:
        """Spend budget on a running request; drafts are among the tokens."""
        self.running.append(request)
        self.grants_below_0 |= num_new_tokens < 0
        self.num_scheduled_tokens[request.request_id] = num_new_tokens
        self.token_budget -= num_new_tokens
        if self.draft_rows:
            self._move_ceiling()
        computed = request.num_computed_tokens
        self.context_tokens += computed
        if new_blocks:
            self.new_block_ids[request.request_id] = new_blocks
        if num_drafts:
            self.drafts[request.request_id] = num_drafts
        num_known = num_new_tokens - num_drafts
        if request.is_prefill_chunk:
            self.prefill_scheduled = True
        if request.is_prefill_chunk or num_known > 1:  # cut back by a load that failed
            self.prefills.append(PrefillGrant(request, computed, num_known))
            self._note_cut(request, computed + num_known)
        else:
            self.decode_tokens += 1

    def grant_encoder_inputs(self, request: Request, cache: EncoderCache) -> None:
        """Encode the items found for the request in hand."""
        grant = self.encoder_grant
        if grant is None or not grant.inputs:
            return
        self.encoder_inputs[request.request_id] = grant.inputs
        cache.allocate(request, grant)
        self.encoder_budget = grant.budget_left

    def _note_cut(self, request: Request, end: int) -> None:
        if self.token_budget <= 0 and end < request.num_tokens:
            self.cut_by_budget = True

    def _move_ceiling(self) -> None:
        """Take the draft rows of those scheduled, and of the next one, off the input budget.

        |<-- tokens spent -->|<-- token_budget -->| ceiling
        |<------------------ input_budget ------------------|-- rows -->|
        """
        rows = self.draft_rows * (len(self.num_scheduled_tokens) + 1)
        ceiling = min(self.start_budget, self.input_budget - rows)
        self.token_budget += ceiling - self.ceiling
        self.ceiling = ceiling

    def undo(self, request: Request) -> None:
        """Take back what `grant_running` gave a request that is evicted in this very pass."""
        num_new_tokens = self.num_scheduled_tokens.pop(request.request_id)
        self.running.remove(request)
        self.token_budget += num_new_tokens
        if self.draft_rows:
            self._move_ceiling()
        self.context_tokens -= request.num_computed_tokens
        self.new_block_ids.pop(request.request_id, None)
        self.drafts.pop(request.request_id, None)
        for index in self.encoder_inputs.pop(request.request_id, ()):
            self.encoder_budget += request.encoder_inputs[index].num_embeds
        others = [grant for grant in self.prefills if grant.request is not request]
        if len(others) == len(self.prefills):
            self.decode_tokens -= 1
        self.prefills = others

    def grant_admission(
        self,
        request: Request,
        num_computed_tokens: int,
        num_new_tokens: int,
        num_padded_drafts: int,
    ) -> None:
        """Spend budget on a request that was just admitted; its blocks are allocated."""
        self.num_scheduled_tokens[request.request_id] = num_new_tokens
        self.token_budget -= num_new_tokens
        if self.draft_rows:
            self._move_ceiling()
        self.context_tokens += num_computed_tokens
        self.new_block_ids[request.request_id] = request.block_ids.copy()
        if num_padded_drafts:
            self.drafts[request.request_id] = num_padded_drafts
        num_known = max(num_new_tokens - num_padded_drafts, 1)  # one, where the padding is cut
        self.prefills.append(PrefillGrant(request, num_computed_tokens, num_known))
        self._note_cut(request, num_computed_tokens + num_known)

    @property
    def carries_prefill(self) -> bool:
        """Whether a prefill goes on in it, or an admission has more than one token to compute."""
        admitted = {*self.new, *self.resumed}
        return self.prefill_scheduled or any(
            grant.request in admitted and grant.num_computed_tokens < grant.request.num_tokens - 1
            for grant in self.prefills
        )

    def what_if(self) -> SchedulePass:
        """Return a pass with what this one has left to spend, that can be spent without it."""
        spent = self.ceiling - self.token_budget
        rows = self.draft_rows * len(self.num_scheduled_tokens)
        other = SchedulePass(
            self.start_budget - spent,
            self.encoder_budget,
            threshold=self.threshold,
            reach=self.reach,
            defer_prefills=self.defer_prefills,
            input_budget=self.input_budget - spent - rows,
            draft_rows=self.draft_rows,
        )
        other.loras = self.loras.copy()
        other.running = self.running
        other.prefill_scheduled = self.prefill_scheduled
        return other

    def check(self, *, num_running: int, max_num_seqs: int) -> None:
        """Hold the pass to what vLLM asserts at the end of `schedule`."""
        spent = sum(self.num_scheduled_tokens.values()) + self.num_put_aside
        granted = len(self.running) + len(self.new) + len(self.resumed)
        if spent != self.ceiling - self.token_budget:
            raise _broken("tokens scheduled = budget spent")
        if self.token_budget + self.draft_rows < 0:
            raise _broken("the token budget is not overdrawn")
        if num_running > max_num_seqs:
            raise _broken("no more running than max_num_seqs")
        if granted > num_running:
            raise _broken("whoever is scheduled is running")

    @property
    def binding_limit(self) -> Limit:
        """What held the pass back: blocks if it preempted, else what stopped admission.

        Where nothing did, what cut a request short.
        """
        if self.victims:
            return Limit.KV_BLOCKS
        if self.admission_stop is Verdict.QUEUES_EMPTY and self.cut_by_budget:
            return Limit.BUDGET
        if self.admission_stop is Verdict.QUEUES_EMPTY and self.cut_by_encoder:
            return Limit.ENCODER
        return LIMIT_OF[self.admission_stop]

    def close(
        self,
        finished_req_ids: set[str],
        free_encoder_mm_hashes: list[str],
        admissions_cancelled: int,
        admissions_cancelled_fit: int,
        reset_victims: list[Victim],
    ) -> SchedulerOutput:
        """Hand the pass over."""
        closed = self.admission_stop is Verdict.CLOSED_BY_PREEMPTION
        return SchedulerOutput(
            num_scheduled_tokens=self.num_scheduled_tokens,
            scheduled_new_reqs=self.new,
            scheduled_resumed_reqs=self.resumed,
            scheduled_running_reqs=self.running,
            scheduled_spec_decode_tokens=self.drafts,
            scheduled_encoder_inputs=self.encoder_inputs,
            free_encoder_mm_hashes=free_encoder_mm_hashes,
            new_block_ids=self.new_block_ids,
            finished_req_ids=finished_req_ids,
            token_budget=self.start_budget,
            prefills=self.prefills,
            num_put_aside=self.num_put_aside,
            decode_tokens=self.decode_tokens,
            context_tokens=self.context_tokens,
            victims=self.victims,
            reset_victims=reset_victims,
            set_aside=self.set_aside,
            lookups=self.lookups,
            running_stop=self.running_stop,
            admission_stop=self.admission_stop,
            binding_limit=self.binding_limit,
            admissions_cancelled=admissions_cancelled,
            admissions_cancelled_fit=admissions_cancelled_fit,
            budget_stranded=max(self.token_budget, 0) if closed else 0,
        )


def _broken(rule: str) -> InvariantError:
    return InvariantError(f"at the end of schedule(): {rule} does not hold")
