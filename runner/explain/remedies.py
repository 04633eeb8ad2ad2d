"""A change of one flag that ends preemption, bisected over real replays."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from schedbench.errors import SchedbenchError
from schedbench.results.explain.preemptions import Remedy
from schedbench.runner.explain.room import what_it_takes
from schedbench.runner.explain.times import modelled
from schedbench.runner.run import ReplayOptions, replay
from schedbench.runner.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from schedbench.runner.api import Runner
    from schedbench.runner.explain.rerun import Rerun
    from schedbench.runner.replay import Replay
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

MOST_BLOCKS = 64  # times those of the run: beyond, more blocks are no answer
FINENESS = 0.01  # of a number of blocks; seats are found exactly
HUNDREDTHS = 50  # the largest watermark tried


Found = tuple[float | int, float | int | None] | str  # a value, one that fails; why there is none


class _PreemptsError(Exception):
    """The replay under way preempts, which is all there is to know of it."""


@dataclass
class Search:
    """Replays with other values of one flag."""

    flag: str
    config: SchedulerConfig
    options: ReplayOptions
    runner: Runner
    replays: int = 0
    summaries: dict[float, Mapping[str, Any]] = field(default_factory=dict)

    def removes(self, trace: Trace, value: float) -> bool:
        """Whether a replay with this value goes without a preemption, and to its end."""
        self.replays += 1
        try:
            changes: dict[str, Any] = {self.flag: value}
            config = dataclasses.replace(self.config, **changes)
            # A cache reset frees blocks of preempted requests whatever the limits are.
            early = None if self.options.events else _stop_early
            run = replay(trace, config, self.runner, options=self.options, progress=early)
        except (SchedbenchError, _PreemptsError):
            return False
        if run.summary["preempted"] > run.summary["preempted_by_reset"]:
            return False
        self.summaries[value] = run.summary
        return True

    @property
    def was(self) -> int | float:
        found: int | float = getattr(self.config, self.flag)
        return found


def _stop_early(replay: Replay) -> None:
    """End a replay that preempts."""
    if replay.scheduler.blocks_freed_preempt:
        raise _PreemptsError


def find_remedies(
    rerun: Rerun,
    *,
    workers: int | None = None,
    told: Callable[[int, int], None] | None = None,
) -> tuple[tuple[Remedy, ...], str]:
    """A remedy for each flag; and what to say of the times the replays were made with."""
    runner, about = modelled(rerun.run)
    searches = [
        Search(flag, rerun.config, rerun.options, runner) for flag in flags_of(rerun.config)
    ]
    found: dict[str, Remedy] = {}
    with Workers(rerun.trace, workers) as pool:
        for search, remedy in pool.each(find_remedy, searches):
            killed = Remedy(search.flag, search.was, None, 0, reason="the process was killed")
            found[search.flag] = _with_what_it_takes(remedy or killed, rerun)
            if told is not None:
                told(len(found), len(searches))
    return tuple(found[search.flag] for search in searches), about


def flags_of(config: SchedulerConfig) -> list[str]:
    """The flags whose change may end preemption: of a switch, where it is off."""
    return [flag for flag in _BISECTIONS if getattr(config, flag) is not True]


def _with_what_it_takes(remedy: Remedy, rerun: Rerun) -> Remedy:
    if remedy.value is None:
        return remedy
    changes = {remedy.flag: remedy.value}
    takes = what_it_takes(rerun.options.deployment, rerun.config, changes)
    return dataclasses.replace(remedy, takes=takes)


def find_remedy(trace: Trace, search: Search) -> Remedy:
    """Bisect one flag to a value that removes every preemption, beside one that does not."""
    found = _BISECTIONS[search.flag](trace, search)
    if isinstance(found, str):
        return Remedy(search.flag, search.was, None, search.replays, reason=found)
    value, fails = found
    return Remedy(search.flag, search.was, value, search.replays, search.summaries[value], fails)


def _fewest_blocks(trace: Trace, search: Search) -> Found:
    low = high = int(search.was)
    while not search.removes(trace, high := high * 2):
        low = high
        if high >= MOST_BLOCKS * search.was:
            return f"{high} blocks do not end it either"
    while high - low > max(1, int(low * FINENESS)):
        middle = (low + high) // 2
        if search.removes(trace, middle):
            high = middle
        else:
            low = middle
    return high, low


def _most_seats(trace: Trace, search: Search) -> Found:
    low, high = 1, int(search.was)  # low removes, high does not
    if high == low or not search.removes(trace, low):
        return "a single running request does not end it either"
    while high - low > 1:
        middle = (low + high) // 2
        if search.removes(trace, middle):
            low = middle
        else:
            high = middle
    return low, high


def _least_watermark(trace: Trace, search: Search) -> Found:
    low, high = int(search.was * 100), HUNDREDTHS
    if low >= high or not search.removes(trace, high / 100):
        return f"{HUNDREDTHS / 100:g} does not end it either"
    while high - low > 1:
        middle = (low + high) // 2
        if search.removes(trace, middle / 100):
            high = middle
        else:
            low = middle
    return high / 100, low / 100


def _whole_sequence(trace: Trace, search: Search) -> Found:
    """Admit a request only where its whole sequence so far fits."""
    return (True, None) if search.removes(trace, value=True) else "turning it on does not end it"


_BISECTIONS: Final = {
    "num_gpu_blocks": _fewest_blocks,
    "max_num_seqs": _most_seats,
    "watermark": _least_watermark,
    "scheduler_reserve_full_isl": _whole_sequence,
}
