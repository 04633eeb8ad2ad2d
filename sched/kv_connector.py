"""KV held elsewhere: prefixes that are fetched instead of computed, and blocks being sent away.

An asynchronous load takes its blocks at once and waits, without a forward pass, until it is
reported. It may not take the blocks that unfinished prefills still need, for nothing could evict
it. A request that finishes while its blocks are being sent keeps them until that is reported.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from schedbench.sched.endings import Ending, ends
from schedbench.sched.kv_cache.manager import table_of
from schedbench.sched.request import RequestStatus
from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.kv_cache.block_table import BlockTable
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


class KVConnector(Protocol):
    """The scheduler's side of vLLM's connector interface."""

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Tokens past those computed that it holds (None: not known yet); loaded asynchronously?"""
        ...

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Blocks for so many of its tokens were allocated: the load begins."""
        ...

    def request_finished(self, request: Request) -> bool:
        """Whether the request's blocks are being sent and must stay."""
        ...

    def has_pending_block_frees(self) -> bool:
        """Whether it is about to let go of blocks; asked when the pool is short."""
        ...

    @property
    def requires_kv_delivery(self) -> bool | None:
        """Whether the KV of what is let go of must be handed on. None: as the role implies."""
        ...


@dataclass(frozen=True, slots=True)
class KVConnectorOutput:
    """What the workers report of transfers with a pass."""

    finished_recving: tuple[str, ...] = ()
    finished_sending: tuple[str, ...] = ()
    invalid_block_ids: frozenset[int] = frozenset()
    failed_recving: tuple[str, ...] = ()  # loads that failed as a whole


@dataclass(slots=True)
class TransferState:
    """What the scheduler remembers of transfers. Sets hold request ids or requests."""

    connector: KVConnector
    recompute_failures: bool  # else a failed load ends the request
    defer_frees: bool  # a pass in flight may still write what is freed
    must_hand_kv_on: bool
    loaded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    unfinished_prefills: set[Request] = field(default_factory=set)
    scheduled_passes: int = 0  # passes with tokens, scheduled and folded in
    folded_passes: int = 0
    deferred: deque[tuple[int, BlockTable]] = field(default_factory=deque)

    def is_written(self, request: Request) -> bool:
        """Whether a pass in flight may still write the request's blocks."""
        return self.defer_frees and request.last_sched_seq > self.folded_passes

    def what_if(self) -> TransferState:
        """A copy that can be changed; the connector is asked and told nothing."""
        return TransferState(
            _AskOnly(self.connector),
            self.recompute_failures,
            self.defer_frees,
            self.must_hand_kv_on,
            self.loaded.copy(),
            self.failed.copy(),
            self.unfinished_prefills.copy(),
            self.scheduled_passes,
            self.folded_passes,
            self.deferred.copy(),
        )


class _AskOnly:
    """A connector that may be asked and is told nothing."""

    def __init__(self, connector: KVConnector) -> None:
        self.get_num_new_matched_tokens = connector.get_num_new_matched_tokens

    def update_state_after_alloc(self, request: Request, num_external_tokens: int) -> None:
        """Nothing was allocated in truth."""

    def request_finished(self, request: Request) -> bool:
        raise NotImplementedError

    def has_pending_block_frees(self) -> bool:
        raise NotImplementedError

    @property
    def requires_kv_delivery(self) -> bool | None:
        raise NotImplementedError


def new_transfers(connector: KVConnector, config: SchedulerConfig) -> TransferState:
    """Nothing is under way yet."""
    must_hand_kv_on = connector.requires_kv_delivery
    return TransferState(
        connector,
        recompute_failures=config.kv_load_failure_policy == "recompute",
        defer_frees=config.defers_frees,
        must_hand_kv_on=config.must_hand_kv_on if must_hand_kv_on is None else must_hand_kv_on,
    )


def reserved_blocks(scheduler: Scheduler, transfers: TransferState) -> int:
    """Blocks that a load leaves free: what unfinished prefills still need to hold all they know.

    With speculation perhaps a step with drafts as well, for each of them and for itself.
    """
    config = scheduler.config
    size, step = config.block_size, config.spec_step_tokens
    step_blocks = -(-step // size)
    within, beside = (0, step_blocks) if config.behaviour.reserve_apart else (step, 0)
    return step_blocks + sum(
        max(
            -(-(min(request.num_tokens, config.max_model_len) + within) // size)
            - len(request.block_ids),
            0,
        )
        + beside
        for request in transfers.unfinished_prefills
    )


def why_not_to_evict(
    scheduler: Scheduler, transfers: TransferState, victim: Request
) -> Verdict | None:
    """Why an eviction would be in vain: blocks come back anyway, or the victim's only later."""
    behaviour = scheduler.config.behaviour
    if behaviour.pending_frees and transfers.connector.has_pending_block_frees():
        return Verdict.FREES_PENDING
    if behaviour.evict_wait and transfers.is_written(victim):
        return Verdict.EVICTION_WAITS
    return None


def load_is_done(scheduler: Scheduler, transfers: TransferState, request: Request) -> bool:
    """Whether a loading request may be admitted; if so, settle what was loaded.

    A full hit leaves the last token to be computed, or there would be nothing to sample from. A
    failed load has `num_computed_tokens` cut to what is valid; with nothing valid the blocks go.
    """
    if request.request_id not in transfers.loaded:
        return False
    transfers.loaded.discard(request.request_id)
    failed = request.request_id in transfers.failed
    transfers.failed.discard(request.request_id)
    if failed and not request.num_computed_tokens:
        scheduler.kv_cache.free(request)
    else:
        scheduler.kv_cache.cache_blocks(request, request.num_computed_tokens)
    leaves_one = not failed or scheduler.config.behaviour.failed_full_hit
    if leaves_one and request.num_computed_tokens == request.num_tokens:
        request.num_computed_tokens -= 1
    return True


def transfers_ended(
    scheduler: Scheduler, transfers: TransferState, report: KVConnectorOutput
) -> None:
    """Note loads that arrived, and let go of blocks that nobody waits for any more."""
    for request_id in report.finished_recving:
        request = _known(scheduler, request_id)
        if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS:
            transfers.loaded.add(request_id)
        else:
            scheduler.free_blocks_and_forget(request)
    for request_id in report.finished_sending:
        scheduler.free_blocks_and_forget(_known(scheduler, request_id))


def _known(scheduler: Scheduler, request_id: str) -> Request:
    request = scheduler.requests.get(request_id)
    if request is None:
        raise ends(Ending.TRANSFER_UNKNOWN, scheduler.config)
    return request


def pass_is_scheduled(
    scheduler: Scheduler, transfers: TransferState, this_pass: SchedulePass
) -> None:
    """Note in which pass the blocks of each request are written last."""
    if transfers.defer_frees and this_pass.num_scheduled_tokens:
        transfers.scheduled_passes += 1
        for request_id in this_pass.num_scheduled_tokens:
            scheduler.requests[request_id].last_sched_seq = transfers.scheduled_passes


def prefills_end(scheduler: Scheduler, transfers: TransferState, this_pass: SchedulePass) -> None:
    """Forget the reservations of requests whose known tokens are all scheduled by now."""
    for request_id in this_pass.num_scheduled_tokens:
        request = scheduler.requests[request_id]
        if not request.is_prefill_chunk:
            transfers.unfinished_prefills.discard(request)


def free_or_defer(scheduler: Scheduler, request: Request) -> int:
    """Free a request's blocks, or put that off until its pass in flight is folded in.

    Returns how many blocks became free now.
    """
    transfers = scheduler.transfers
    if transfers is None or not transfers.is_written(request):
        return scheduler.kv_cache.free(request)
    if request.block_ids:
        table = scheduler.kv_cache.take_blocks(request)
        transfers.deferred.append((transfers.scheduled_passes, table))
    return 0


def pass_is_folded(scheduler: Scheduler, transfers: TransferState) -> int:
    """Return the blocks whose last writing pass is done; how many became free."""
    transfers.folded_passes += 1
    pool = scheduler.kv_cache.pool
    freed = 0
    while transfers.deferred and transfers.deferred[0][0] <= transfers.folded_passes:
        freed += pool.free(transfers.deferred.popleft()[1])
    return freed


def failed_requests(
    scheduler: Scheduler, transfers: TransferState, report: KVConnectorOutput
) -> set[str]:
    """Take note of loads that failed as a whole; returns the ids that end with an error."""
    if not scheduler.config.behaviour.failed_recving:
        return set()
    loading = {
        request_id
        for request_id in report.failed_recving
        if (request := scheduler.requests.get(request_id)) is not None
        and request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
    }
    if not transfers.recompute_failures:
        return loading
    for request_id in loading:
        scheduler.requests[request_id].num_computed_tokens = 0
    transfers.failed |= loading
    return set()


def failed_loads(
    scheduler: Scheduler,
    transfers: TransferState,
    invalid: frozenset[int],
    num_scheduled_tokens: dict[str, int],
) -> set[str]:
    """Cut requests back to what was loaded in front of the first invalid block.

    Returns the ids this pass's tokens are not folded into. With policy recompute a request that
    loaded synchronously goes on from the cut, an asynchronous one when its load is reported; with
    policy fail all of them end with an error.
    """
    loading = [
        request
        for request in scheduler.queues
        if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
    ]
    waiting, _ = _cut_back(scheduler, loading, invalid, num_scheduled_tokens)
    running, dependent = _cut_back(scheduler, scheduler.running, invalid, num_scheduled_tokens)
    if transfers.recompute_failures:
        transfers.failed |= waiting
        return running
    for request, first in dependent:
        scheduler.kv_cache.pool.forget(table_of(request), first)
    return waiting | running


def _cut_back(
    scheduler: Scheduler,
    requests: Iterable[Request],
    invalid: frozenset[int],
    num_scheduled_tokens: dict[str, int],
) -> tuple[set[str], list[tuple[Request, int]]]:
    """Returns ids of requests with invalid blocks, and those by the first block that is void.

    A block shared by several requests is computed again by the first of them; for the others it
    counts as computed.
    """
    block_size = scheduler.config.block_size
    affected: set[str] = set()
    dependent: list[tuple[Request, int]] = []
    claimed: set[int] = set()
    for request in requests:
        computed = request.num_computed_tokens - num_scheduled_tokens.get(request.request_id, 0)
        num_held = max(-(-computed // block_size), 0)  # cut back while in flight, it is below 0
        held = request.block_ids[:num_held]
        bad = [place for place, block_id in enumerate(held) if block_id in invalid]
        if not bad:
            continue
        affected.add(request.request_id)
        own = [place for place in bad if held[place] not in claimed]
        claimed.update(held[place] for place in own)
        if own:
            request.num_computed_tokens = own[0] * block_size
            dependent.append((request, own[0]))
        else:
            request.num_computed_tokens = computed
    return affected, dependent
