"""Prefill only every so many passes, so that decodes run in longer stretches between.

Counted are passes in which something was scheduled; the interval begins anew with each that
carried prefill. A request with one token left to compute passes, and does not restart it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedbench.sched.schedule_pass import SchedulePass


class PrefillInterval:
    """`interval` in passes; 1 holds nothing back."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._num_passes = 0
        self._last_prefill = -interval  # the first pass is free

    @property
    def holds(self) -> bool:
        """Whether the pass about to begin comes too early for prefill."""
        return self._num_passes + 1 - self._last_prefill < self._interval

    def pass_is_scheduled(self, this_pass: SchedulePass) -> None:
        if self._interval == 1:
            return
        self._num_passes += bool(this_pass.num_scheduled_tokens)
        if this_pass.carries_prefill:
            self._last_prefill = self._num_passes
