"""Notes, while a run is replayed again, who was in the queues when, and what held each request.

Most requests are held by nothing but adapters and free blocks. Of those only the blocks they need
are noted, and `results/explain/holds.py` compares them with the passes afterwards; the others are
looked at in every pass, and what is found is noted where it changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from schedbench.results.explain.holds import DECODES, Needs, Stay, Stop
from schedbench.runner.explain.own_hold import (
    FOR_ALL,
    blocks_needed,
    hold_of,
    is_plain,
    slots_full,
)
from schedbench.runner.waits import WaitClock
from schedbench.sched.verdicts import LIMIT_OF, Limit, Verdict

if TYPE_CHECKING:
    from schedbench.runner.requests import Row
    from schedbench.sched.output import SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler
    from schedbench.workloads.trace import Trace


class QueueClock(WaitClock):
    """A clock of waits that keeps what it is told."""

    def __init__(self, scheduler: Scheduler, trace: Trace) -> None:
        super().__init__()
        self.stops: list[Stop] = []
        self.stays: list[Stay] = []
        self._scheduler = scheduler
        self._shares = trace.has("hash_ids") and scheduler.config.enable_prefix_caching
        self._outputs_are_shared = trace.has("output_hash_ids")
        self._requests: dict[int, Request] = {}  # by row
        self._live: dict[int, Stay] = {}
        self._watched: dict[int, Stay] = {}  # of those, the ones looked at in every pass
        self._sharing: set[int] = set()  # rows that may hit what others bring
        self._shared_at = (0, 0, 0)
        self._prefills = 0  # passes so far with tokens that others may hit
        self._fresh: list[Stay] = []
        self._known: dict[int, int] = {}  # tokens of those preempted: some may be in flight yet
        self._taker: int | None = None
        self._loras: frozenset[int] = frozenset()

    def arrives(self, request: Request) -> None:
        if request.tag is not None:
            self._requests[request.tag.row] = request

    def decided(self, output: SchedulerOutput) -> None:
        """Look at a pass before its admission's end is noted: adapters, and who took the budget."""
        self._prefills += bool(output.prefills) or self._outputs_are_shared
        if LIMIT_OF[output.admission_stop] is Limit.BUDGET:
            self._taker = taker_of(output)
        if self._scheduler.config.max_loras is not None:
            self._loras = loras_of(self._scheduler, output)

    def hold_after(self, stop: Verdict, request: Request) -> str:
        """What would hold a request first, as things are after a pass that ended admission so."""
        return hold_of(self._scheduler, request, stop, self._loras)

    def enters(self, row: Row, in_flight_ns: int = 0) -> None:
        super().enters(row, in_flight_ns)
        stay = Stay(row.row, self._since_ns)
        self.stays.append(stay)
        self._live[row.row] = stay
        self._fresh.append(stay)

    def leaves(self, row: Row) -> None:
        super().leaves(row)
        stay = self._live.pop(row.row, None)
        if stay is not None:
            stay.end_ns = self._since_ns
            self._watched.pop(row.row, None)
            self._known.pop(row.row, None)
            self._sharing.discard(row.row)

    def schedule_ended(self, stop: Verdict, aside: list[tuple[Request, Verdict]]) -> None:
        super().schedule_ended(stop, aside)
        self._note_stop(stop)
        for row, num_tokens in list(self._known.items()):
            if self._requests[row].num_tokens != num_tokens:
                self._fresh.append(self._begin_anew(row))
        self._classify()
        self._look_up_again()
        for request, verdict in aside:
            self._live[request.tag.row].aside.append((len(self.stops) - 1, verdict.label))
        held = {request.tag.row for request, _ in aside}
        for row, stay in self._watched.items():
            if row not in held:
                hold = self.hold_after(stop, self._requests[row])
                stay.note(self._since_ns, hold)

    def sets_aside(self, request: Request, verdict: Verdict) -> None:
        super().sets_aside(request, verdict)
        self.stops.append(replace(self.stops[-1], begin_ns=self._since_ns))
        for each, found in self._aside:
            stay = self._live.get(each.tag.row)
            if stay is not None:
                stay.aside.append((len(self.stops) - 1, found.label))

    def _note_stop(self, stop: Verdict) -> None:
        scheduler = self._scheduler
        self.stops.append(
            Stop(
                self._since_ns,
                stop.label,
                is_for_all=stop in FOR_ALL,
                head=scheduler.queues.head().tag.row if len(scheduler.queues) else None,
                taker=self._taker,
                loras=self._loras,
                slots_full=slots_full(scheduler),
                headroom_blocks=scheduler.config.watermark_blocks if scheduler.running else 0,
            )
        )
        self._taker = None

    def _begin_anew(self, row: int) -> Stay:
        """Go on with a stay as another one: what the request needs has changed."""
        self._live[row].end_ns = self._since_ns
        stay = self._live[row] = Stay(row, self._since_ns)
        self._watched.pop(row, None)
        self.stays.append(stay)
        return stay

    def _classify(self) -> None:
        """Settle of those that came how they will be looked at."""
        for stay in self._fresh:
            request = self._requests[stay.row]
            if self._live.get(stay.row) is not stay:
                continue
            if request.num_preemptions:
                self._known[stay.row] = request.num_tokens
            if is_plain(self._scheduler, request):
                stay.needs = self._needs(request)
                if self._shares:
                    self._sharing.add(stay.row)
            else:
                self._watched[stay.row] = stay
        self._fresh.clear()

    def _needs(self, request: Request) -> Needs:
        needed = blocks_needed(self._scheduler, request, shares_prefixes=self._shares)
        return Needs(*needed, request.lora_id)

    def _look_up_again(self) -> None:
        """Look up prefixes anew after a pass in which others brought or let go of blocks."""
        if not self._sharing:
            return
        scheduler = self._scheduler
        at = self._prefills, scheduler.blocks_freed_finish, scheduler.blocks_freed_preempt
        if at == self._shared_at:
            return
        self._shared_at = at
        for row in self._sharing:
            needs = self._needs(self._requests[row])
            if needs != self._live[row].needs:
                self._begin_anew(row).needs = needs


def taker_of(output: SchedulerOutput) -> int:
    """The row of the request with most prompt tokens of a pass; DECODES if they have more."""
    grant = max(output.prefills, key=lambda each: each.num_new_tokens, default=None)
    if grant is None or grant.num_new_tokens < output.decode_tokens:
        return DECODES
    return int(grant.request.tag.row)


def loras_of(scheduler: Scheduler, output: SchedulerOutput) -> frozenset[int]:
    """The adapters that count against `max_loras` at the end of a pass."""
    counted = scheduler.running
    if not scheduler.config.behaviour.lora_running:
        counted = [each for each in counted if each.request_id in output.num_scheduled_tokens]
    return frozenset(each.lora_id for each in counted if each.lora_id)
