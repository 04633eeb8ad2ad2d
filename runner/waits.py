"""How long each request waited, and under which verdict.

The time from one `schedule()` to the next goes, for everyone in the queues, to the verdict that
ended admission in the first; for a request set aside, to its own; in a pause without passes, to the
pause. Nobody walks the queue: the sums run on, a request notes them when it enters (`queue_marks`)
and takes the difference when it leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.verdicts import Kind, Verdict

if TYPE_CHECKING:
    from schedbench.runner.requests import Row
    from schedbench.sched.request import Request

OF_THE_RUNNING_LOOP = {
    Verdict.LIST_DONE,
    Verdict.PREEMPTED,
    Verdict.PREEMPTED_SELF,
    Verdict.EVICTION_WAITS,
    Verdict.FREES_PENDING,
}
WAIT_VERDICTS: list[Verdict] = [
    verdict
    for verdict in Verdict
    if verdict.kind in (Kind.STOP, Kind.ASIDE) and verdict not in OF_THE_RUNNING_LOOP
]
IN_FLIGHT = "pass_in_flight"  # from an arrival to the first schedule() that can see it
WAIT_LABELS = [IN_FLIGHT, *(verdict.label for verdict in WAIT_VERDICTS)]
NOTHING_WAITED = [0] * len(WAIT_LABELS)
_INDEX = [0] * len(Verdict)  # by a verdict's number
for _place, _verdict in enumerate(WAIT_VERDICTS):
    _INDEX[_verdict.number] = 1 + _place


def label_of_stop(stop: Verdict) -> int:
    """The place among `WAIT_LABELS` of the time that follows a pass whose admission it ended."""
    return _INDEX[stop.number]


class WaitClock:
    """Cumulative queue time by verdict, ns."""

    def __init__(self) -> None:
        self._sums = [0] * len(WAIT_LABELS)
        self._since_ns = 0
        self._stop = Verdict.QUEUES_EMPTY
        self._aside: list[tuple[Request, Verdict]] = []

    def advance(self, now_ns: int) -> None:
        """Give the time since the last call to what ended admission in the last pass."""
        elapsed = now_ns - self._since_ns
        self._since_ns = now_ns
        if not elapsed:
            return
        self._sums[_INDEX[self._stop.number]] += elapsed
        for request, verdict in self._aside:
            waited = request.tag.waited_ns
            if waited and request.tag.queue_marks:
                waited[_INDEX[verdict.number]] += elapsed
                waited[_INDEX[self._stop.number]] -= elapsed

    def goes_on(self, since_ns: int, stop: Verdict) -> None:
        """Take over where others kept account, up to the start of the last pass."""
        self._since_ns = since_ns
        self.schedule_ended(stop, [])

    def schedule_ended(self, stop: Verdict, aside: list[tuple[Request, Verdict]]) -> None:
        self._stop, self._aside = stop, aside

    def sets_aside(self, request: Request, verdict: Verdict) -> None:
        """Note what a request waits for that came to the queues after the last `schedule()`."""
        self._aside = [*self._aside, (request, verdict)]

    def mark(self) -> list[int]:
        """The sums as they are."""
        return self._sums.copy()

    def enters(self, row: Row, in_flight_ns: int = 0) -> None:
        """Note a request's entry into the queues, `in_flight_ns` after its arrival.

        The clock has to be there already (`advance`), as for `leaves`.
        """
        waited = list(row.waited_ns or NOTHING_WAITED)
        waited[0] += in_flight_ns
        row.waited_ns = waited
        row.queue_marks = self._sums.copy()

    def leaves(self, row: Row) -> None:
        """Take a request's waits down; nothing if it is not in the queues."""
        marks = row.queue_marks
        if not marks:
            return
        row.queue_marks = ()
        if marks != self._sums:
            row.waited_ns = [
                waited + now - mark
                for waited, now, mark in zip(row.waited_ns, self._sums, marks, strict=True)
            ]
