"""The fast ways through a replay read every flag as the plain loops do."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from every_flag import DRAWN, LEFT_OUT, case

from schedbench.errors import SchedbenchError
from schedbench.runner.clock import ClockRunner
from schedbench.runner.run import ReplayOptions, replay
from schedbench.sched.config import SchedulerConfig

if TYPE_CHECKING:
    from schedbench.workloads.trace import Trace


def outcome(trace: Trace, config: SchedulerConfig, *, short_way: bool) -> dict[str, object] | str:
    """All rows, or the error that the replay ended in."""
    options = ReplayOptions(short_way=short_way, warmup_ns=5_000_000)
    try:
        done = replay(trace, config, ClockRunner(1_000_000, 10_000), options=options)
    except SchedbenchError as error:
        return str(error)
    tables = {"passes": done.passes, "requests": done.requests, "itl": done.itl}
    return {name: table.to_pydict() for name, table in tables.items()}


def test_every_flag_of_the_scheduler_is_drawn_or_left_out_by_name() -> None:
    assert {each.name for each in fields(SchedulerConfig)} == set(DRAWN) | set(LEFT_OUT)


@pytest.mark.parametrize("name", DRAWN)
def test_a_flag_is_drawn_off_its_default(name: str) -> None:
    default = next(each.default for each in fields(SchedulerConfig) if each.name == name)
    assert any(value != default for value in DRAWN[name])


@pytest.mark.parametrize("seed", range(0, 300, 30))
def test_fast_and_plain_ways_give_equal_rows_under_any_flags(seed: int) -> None:
    for each in range(seed, seed + 30):
        trace, config = case(each)
        fast = outcome(trace, config, short_way=True)
        assert fast == outcome(trace, config, short_way=False), (each, config)
