"""The fast path gives the rows of the reference path where prompts carry hash ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prefix_traces import prefix_configs, prefix_text

from schedbench.errors import StallError, TraceError
from schedbench.runner import express, express_ahead, express_batch
from schedbench.runner.clock import ClockRunner
from schedbench.runner.events import Event
from schedbench.runner.run import ReplayOptions, Run, replay
from schedbench.sched.scheduler import Scheduler

if TYPE_CHECKING:
    from schedbench.runner.arrivals import ArrivalMode
    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

EVENTS: list[tuple[Event, ...]] = [
    (),
    (),
    (Event(20_000_000, "pause", state="new"), Event(40_000_000, "resume")),
    (Event(30_000_000, "reset_prefix_cache", preempt=True),),
    (Event(25_000_000, "abort", request=1),),
]

ARRIVALS: list[ArrivalMode] = ["open", "closed", "all-at-once"]


def rows_of(done: Run) -> dict[str, list[object]]:
    return {**done.passes.to_pydict(), **done.requests.to_pydict(), "itl": done.itl.to_pylist()}


def outcome(
    trace: Trace,
    config: SchedulerConfig,
    events: tuple[Event, ...],
    arrivals: ArrivalMode = "open",
    *,
    short_way: bool,
) -> dict[str, list[object]] | str:
    """All rows of a replay by column, or the error it ended in."""
    options = ReplayOptions(
        short_way=short_way, warmup_ns=5_000_000, events=events, arrivals=arrivals
    )
    try:
        return rows_of(replay(trace, config, ClockRunner(1_000_000, 10_000), options=options))
    except (StallError, TraceError) as error:
        return str(error)


def both(
    trace: Trace,
    config: SchedulerConfig,
    events: tuple[Event, ...],
    batch: int,
    arrivals: ArrivalMode = "open",
) -> tuple[object, object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(express, "TELL_EVERY", 1)
        for module, name in (
            (express, "MOST_PASSES"),
            (express, "LONGEST_RUN"),
            (express_ahead, "LONGEST_RUN"),
            (express_batch, "MOST_ENDED"),
        ):
            patch.setattr(module, name, batch)
        fast = outcome(trace, config, events, arrivals, short_way=True)
    return fast, outcome(trace, config, events, arrivals, short_way=False)


@settings(max_examples=120)
@given(
    prefix_text(),
    prefix_configs(),
    st.sampled_from(EVENTS),
    st.sampled_from([1, 7, 65536]),
    st.sampled_from(ARRIVALS),
)
def test_shared_prefixes_give_the_rows_of_the_reference_path(
    trace: Trace,
    config: SchedulerConfig,
    events: tuple[Event, ...],
    batch: int,
    arrivals: ArrivalMode,
) -> None:
    fast, reference = both(trace, config, events, batch, arrivals)
    assert fast == reference


@settings(max_examples=30)
@given(prefix_text(), prefix_configs(caches=False))
def test_hash_ids_change_nothing_with_prefix_caching_off(
    trace: Trace, config: SchedulerConfig
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("schedule", "update_from_output"):
            patch.setattr(Scheduler, name, None)
        try:
            fast = outcome(trace, config, (), short_way=True)
        except TypeError:  # a pass that only the reference path schedules
            fast = None
    reference = outcome(trace, config, (), short_way=False)
    assert fast in (None, reference)
