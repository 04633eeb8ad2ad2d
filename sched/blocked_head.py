"""What keeps the head of the queue out, where that holds until somebody ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.schedule_pass import SchedulePass
    from schedbench.sched.scheduler import Scheduler


class BlockedHead:
    """`verdict` ended admission and will end it again while at least `floor` blocks are free."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.verdict: Verdict | None = None
        self.floor = 0

    def note(self, scheduler: Scheduler, this_pass: SchedulePass) -> None:
        """Remember how a pass's admission ended, unless that may change by itself.

        What a waiting request asks for depends on what it hits, unless all of it fits in the
        budget: then hits and new blocks add up to the same. Where blocks have numbers it may hit
        what others hold, so that no shortage is remembered.
        """
        self.clear()
        stop = this_pass.admission_stop
        if this_pass.set_aside:
            return
        if stop is Verdict.SEATS_FULL or (stop is Verdict.BUDGET_SPENT and not this_pass.prefills):
            self.verdict = stop
        elif scheduler.kv_cache.pool.is_numbered:
            return  # decodes may hash a block that the head would hit
        elif stop in (Verdict.KV_BLOCKS_SHORT, Verdict.KV_BLOCKS_SHORT_WATERMARK):
            head = scheduler.queues.head()
            admitted = len(this_pass.new) + len(this_pass.resumed)
            most = scheduler.config.tokens_of_pass - this_pass.num_put_aside - admitted
            if this_pass.threshold:
                most = min(most, this_pass.threshold)
            if head.encoder_inputs or head.num_tokens > most:
                return
            self.verdict = stop
            if stop is Verdict.KV_BLOCKS_SHORT_WATERMARK:
                self.floor = scheduler.kv_cache.blocks_for(head.num_tokens)
