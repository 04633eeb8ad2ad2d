"""A replay that follows a server's own clock: what was recorded happens when it did then.

    server   add  schedule        add  abort  update   schedule
    clock    ---- start_ns ------------------ end ---- start_ns ---

Between a pass and the next a server spends time of its own, and it ends requests while a pass is
in flight. So here passes start and end at the recorded times, and whatever the trace says of
earlier times comes first; the decisions are this project's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from schedbench.runner.replay import Replay
from schedbench.runner.stall import ProgressWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from schedbench.runner.api import Runner
    from schedbench.runner.arrivals import Arrivals
    from schedbench.runner.in_flight import InFlight
    from schedbench.runner.latency.recorded import RecordedRunner
    from schedbench.runner.requests import Row
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler
    from schedbench.workloads.trace import Trace

START, END = 0, 1


@dataclass
class FollowingReplay(Replay):
    """One trace through one scheduler, pass by pass at the times of a recording.

    Raises:
        UsageError: the trace asks for other passes than were recorded.
    """

    short_way: bool = False
    shift_ns: int = 0  # the recording's clock at the trace's 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arrivals = OnClock(self.arrivals, self.shift_ns)
        self._watch = NoWatch()

    def run(self) -> None:
        """Replay the recorded passes, then let the rest of the trace arrive or leave."""
        recorded: RecordedRunner = self.runner  # type: ignore[assignment]
        for at_ns, what in _calls(recorded.starts_ns, recorded.durations_ns):
            self._take_until(at_ns)
            if what == START:
                self._in_flight.append(self._schedule())
            else:
                self._fold()
        while (upcoming := self._next_ns()) is not None:
            self._take_until(upcoming)

    def _take_until(self, at_ns: int) -> None:
        """Move the clock to `at_ns`, and take in what is due by then, each at its time."""
        while (upcoming := self._next_ns()) is not None and upcoming <= at_ns:
            self.now_ns = max(self.now_ns, upcoming)
            self._take_what_is_due()
        self.now_ns = at_ns

    def _fold(self) -> InFlight:
        """Fold the oldest in now: the clock stands at its end already."""
        self.now_ns -= self._in_flight[0].result.duration_ns
        return super()._fold()


def replay_class(runner: Runner, trace: Trace) -> Callable[..., Replay]:
    """The loop for a source of time: on a clock of its own, or on that of a recorded server."""
    if not getattr(runner, "starts_ns", ()):
        return Replay
    shift_ns = trace.provenance.get("clock", {}).get("origin_ns", 0)
    return partial(FollowingReplay, shift_ns=shift_ns)


class NoWatch(ProgressWatch):
    """The server came through, however little its passes brought."""

    def is_stuck(
        self,
        scheduler: Scheduler,  # noqa: ARG002 - the base's own
        output: SchedulerOutput,  # noqa: ARG002
        outputs: EngineCoreOutputs,  # noqa: ARG002
    ) -> bool:
        return False


@dataclass
class OnClock:
    """Arrivals on the recording's clock.

    It starts at the arrival of whom the scheduler was given first; the trace starts at the first
    arrival, which may be of one that was overtaken on its way there.
    """

    arrivals: Arrivals
    shift_ns: int

    def next_ns(self) -> int | None:
        upcoming = self.arrivals.next_ns()
        return None if upcoming is None else upcoming + self.shift_ns

    def take(self, now_ns: int) -> Iterator[tuple[Row, Request]]:
        for row, request in self.arrivals.take(now_ns - self.shift_ns):
            row.arrival_ns += self.shift_ns
            row.added_ns += self.shift_ns
            request.arrival_time += self.shift_ns
            yield row, request

    def finished(self, row: Row, now_ns: int) -> None:
        self.arrivals.finished(row, now_ns - self.shift_ns)


def _calls(starts_ns: Sequence[int], durations_ns: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Starts and ends of passes in order of time. A pass runs once the one before it has ended."""
    ends_ns, end_ns = [], 0
    for start_ns, duration_ns in zip(starts_ns, durations_ns, strict=True):
        end_ns = max(start_ns, end_ns) + duration_ns
        ends_ns.append(end_ns)
    starts = [(start_ns, START) for start_ns in starts_ns]
    yield from sorted([*starts, *((end_ns, END) for end_ns in ends_ns)])
