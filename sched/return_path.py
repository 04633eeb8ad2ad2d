"""What leaves the engine after a pass: outputs by client, finished ids, events, statistics.

Present only when somebody listens; the scheduler keeps a `ReturnPath` or None. Statistics go to one
front end only: the first that gets anything in the pass, else client 0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

EventType = Literal["QUEUED", "SCHEDULED", "PREEMPTED"]


@dataclass(frozen=True, slots=True)
class EngineCoreEvent:
    """Something that happened to a request, and when on the clock."""

    type: EventType
    timestamp_ns: int


@dataclass(slots=True)
class EngineCoreOutput:
    """One request's share of a pass. `finish_reason` is None while it goes on."""

    request_id: str
    num_new_tokens: int
    finish_reason: str | None
    events: list[EngineCoreEvent]


@dataclass(slots=True)
class PrefixCacheStats:
    """Lookups since the last statistics, in requests and tokens; evicted requests apart."""

    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0

    def record(self, request: Request, num_hit_tokens: int) -> None:
        if request.num_preemptions:
            self.preempted_requests += 1
            self.preempted_queries += request.num_tokens
            self.preempted_hits += num_hit_tokens
        else:
            self.requests += 1
            self.queries += request.num_tokens
            self.hits += num_hit_tokens


@dataclass(slots=True)
class SpecDecodingStats:
    """Drafts verified in one pass."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0


@dataclass(slots=True)
class SchedulerStats:
    """State after a pass. `kv_cache_usage` is the share of the usable blocks that is held."""

    num_running_reqs: int
    num_waiting_reqs: int
    num_skipped_waiting_reqs: int
    kv_cache_usage: float
    prefix_cache_stats: PrefixCacheStats
    spec_decoding_stats: SpecDecodingStats | None


@dataclass(slots=True)
class ClientOutputs:
    """What one front end gets after a pass."""

    outputs: list[EngineCoreOutput] = field(default_factory=list)
    finished_requests: set[str] | None = None
    scheduler_stats: SchedulerStats | None = None


class ReturnPath:
    """Collects between passes, and fans out after each.

    Args:
        include_finished_set: tell each client the ids that finished since it last got outputs.
        log_stats: record events and statistics.
    """

    def __init__(self, *, include_finished_set: bool = False, log_stats: bool = True) -> None:
        self.include_finished_set = include_finished_set
        self.log_stats = log_stats
        self._finished: dict[int, set[str]] = defaultdict(set)
        self._events: dict[str, list[EngineCoreEvent]] = defaultdict(list)
        self._prefix = PrefixCacheStats()
        self._spec: SpecDecodingStats | None = None

    def event(self, request: Request, event_type: EventType, now_ns: int) -> None:
        if self.log_stats:
            self._events[request.request_id].append(EngineCoreEvent(event_type, now_ns))

    def looked_up(self, request: Request, num_hit_tokens: int) -> None:
        self._prefix.record(request, num_hit_tokens)

    def verified(self, num_drafts: int, num_accepted: int) -> None:
        self._spec = self._spec or SpecDecodingStats()
        self._spec.num_drafts += 1
        self._spec.num_draft_tokens += num_drafts
        self._spec.num_accepted_tokens += num_accepted

    def request_finished(self, request: Request) -> None:
        if self.include_finished_set:
            self._finished[request.client_index].add(request.request_id)

    def scheduled(self, output: SchedulerOutput, now_ns: int) -> None:
        """Note who was admitted in a pass."""
        for request in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs):
            self.event(request, "SCHEDULED", now_ns)

    def fan_out(self, scheduler: Scheduler, outputs: EngineCoreOutputs) -> dict[int, ClientOutputs]:
        """Sort a pass's outputs by client."""
        clients: dict[int, ClientOutputs] = defaultdict(ClientOutputs)
        for request in outputs.emitted:
            count = outputs.num_new_tokens.get(request.request_id, 1)
            reason = outputs.reasons.get(request)
            clients[request.client_index].outputs.append(self._output(request, count, reason))
        for request in outputs.errors:
            clients[request.client_index].outputs.append(self._output(request, 0, "error"))
        for client_index, ids in self._finished.items():
            clients[client_index].finished_requests = ids
        self._finished = defaultdict(set)
        if self.log_stats:
            first = next(iter(clients.values()), None) or clients[0]
            first.scheduler_stats = self._stats(scheduler)
        return dict(clients)

    def _output(self, request: Request, count: int, reason: str | None) -> EngineCoreOutput:
        events = self._events.pop(request.request_id, [])
        return EngineCoreOutput(request.request_id, count, reason, events)

    def _stats(self, scheduler: Scheduler) -> SchedulerStats:
        pool, queues = scheduler.kv_cache.pool, scheduler.queues
        prefix, self._prefix = self._prefix, PrefixCacheStats()
        spec, self._spec = self._spec, None
        usable = pool.num_gpu_blocks - 1
        return SchedulerStats(
            num_running_reqs=len(scheduler.running),
            num_waiting_reqs=queues.num_waiting,
            num_skipped_waiting_reqs=queues.num_skipped_waiting,
            kv_cache_usage=1.0 - pool.num_free / usable if usable else 0.0,
            prefix_cache_stats=prefix,
            spec_decoding_stats=spec,
        )
