"""The short way through decodes, and blocks kept in counts, change no row."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbench.errors import StallError, TraceError, UsageError
from schedbench.results.stored_run import StoredRun
from schedbench.runner import express, express_ahead, express_batch, run
from schedbench.runner.clock import ClockRunner
from schedbench.runner.deployment import Deployment
from schedbench.runner.events import Event
from schedbench.runner.run import EnoughError, ReplayOptions, Run, replay
from schedbench.sched.behaviours import RELEASES
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.scheduler import Scheduler
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from schedbench.runner.replay import Replay
    from schedbench.runner.so_far import SoFar


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Bursts of short requests, some with priorities, early ends and time-outs."""
    rows = draw(st.integers(2, 30))

    def some(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))

    output = some(1, 60)
    columns: dict[str, Any] = {
        "arrival_ns": [0, *sorted(some(0, 90_000_000))[1:]],
        "prompt_tokens": some(1, 90),
        "output_tokens": output,
        "priority": some(0, 2),
        "max_tokens": [length + more for length, more in zip(output, some(0, 1), strict=True)],
    }
    if draw(st.booleans()):
        columns["abort_after_ns"] = [
            time if time < 60_000_000 else None for time in some(1_000_000, 200_000_000)
        ]
    return Trace.from_columns(columns)


@st.composite
def configs(draw: st.DrawFn) -> SchedulerConfig:
    block_size = draw(st.sampled_from([4, 16]))
    seats = draw(st.sampled_from([2, 5, 40]))
    return SchedulerConfig(
        vllm_version=draw(st.sampled_from(sorted(RELEASES))),
        max_num_batched_tokens=draw(st.sampled_from([40, 64, 200])),
        max_num_scheduled_tokens=draw(st.sampled_from([None, None, 3, 30])),
        max_num_seqs=seats,
        max_model_len=160,
        num_gpu_blocks=160 // block_size + draw(st.integers(2, 60)),
        block_size=block_size,
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        enable_prefix_caching=draw(st.booleans()),
        scheduler_reserve_full_isl=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 20])),
        async_scheduling=draw(st.booleans()),
    )


def outcome(trace: Trace, config: SchedulerConfig, *, short_way: bool) -> tuple[object, ...]:
    """All rows of a replay, or the stall it ended in."""
    options = ReplayOptions(short_way=short_way, warmup_ns=5_000_000)
    try:
        done = replay(trace, config, ClockRunner(1_000_000, 10_000), options=options)
    except StallError as error:
        return ("stalled", str(error))
    return rows_of(done)


def rows_of(done: Run) -> tuple[object, ...]:
    def values(table: pa.Table) -> dict[str, list[object]]:
        return table.to_pydict()

    return values(done.passes), values(done.requests), values(done.itl)


@settings(max_examples=80)
@given(traces(), configs())
def test_both_ways_give_equal_rows(trace: Trace, config: SchedulerConfig) -> None:
    assert outcome(trace, config, short_way=True) == outcome(trace, config, short_way=False)


@st.composite
def shared_prefixes(draw: st.DrawFn) -> Trace:
    """Prompts and answers along the paths of a small tree, in hash blocks of 8 tokens."""
    rows = draw(st.integers(2, 30))
    numbers: dict[tuple[int, ...], int] = {}
    columns: dict[str, list[Any]] = {
        "arrival_ns": [0, *sorted(draw(_ints(rows - 1, 0, 60_000_000)))],
        "prompt_tokens": draw(_ints(rows, 1, 90)),
        "output_tokens": draw(_ints(rows, 1, 50)),
        "priority": draw(_ints(rows, 0, 1)),
        "hash_ids": [],
        "output_hash_ids": [],
    }
    known_outputs = draw(st.booleans())
    for prompt, output in zip(columns["prompt_tokens"], columns["output_tokens"], strict=True):
        turns = draw(_ints(4, 0, 1))  # where the path leaves others, if it does
        path = tuple(turns[block] if block < len(turns) else 0 for block in range(18))
        ids = [
            numbers.setdefault(path[: block + 1], len(numbers))
            for block in range((prompt + output) // 8)
        ]
        columns["hash_ids"].append(ids[: prompt // 8])
        columns["output_hash_ids"].append(ids[prompt // 8 :])
    if not known_outputs:
        del columns["output_hash_ids"]
    if draw(st.booleans()):
        turns = st.fixed_dictionaries(
            {
                "delay_ns": st.integers(0, 20_000_000),
                "prompt_tokens": st.integers(1, 5),
                "output_tokens": st.integers(1, 5),
            }
        )
        columns["chunks"] = [draw(st.none() | st.lists(turns, max_size=1)) for _ in range(rows)]
    return Trace.from_columns(columns, hash_block_tokens=8)


def _ints(count: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=count, max_size=count)


@settings(max_examples=120)
@given(shared_prefixes(), configs(), st.integers(1, 16), st.data())
def test_both_ways_give_equal_rows_where_prefixes_are_shared(
    trace: Trace, config: SchedulerConfig, tightness: int, data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from([1, 4, 8, 16]))
    flags = config.as_dict() | {
        "block_size": size,
        "num_gpu_blocks": 160 // size + 2 + 600 // (size * tightness),
    }
    tried = SchedulerConfig(**flags)
    assert outcome(trace, tried, short_way=True) == outcome(trace, tried, short_way=False)


ITEM = {"offset": 40, "tokens": 28, "embeds": None, "hash": 1}
TURN = {"delay_ns": 9_000_000, "prompt_tokens": 4, "output_tokens": 2}
CASES: dict[str, tuple[Trace, dict[str, Any]]] = {
    "an item that the prompt in hand has not reached": (
        Trace.from_columns(
            {
                "arrival_ns": [0] * 5 + [1],
                "prompt_tokens": [2] * 5 + [90],
                "output_tokens": [20] * 5 + [5],
                "encoder": [None] * 5 + [[ITEM]],
            }
        ),
        {"max_num_batched_tokens": 32, "max_num_seqs": 16, "disable_chunked_mm_input": True},
    ),
    "a session between two inputs while all seats are taken": (
        Trace.from_columns(
            {
                "arrival_ns": [0] * 3,
                "prompt_tokens": [20] * 3,
                "output_tokens": [3, 12, 4],
                "chunks": [[TURN], None, None],
            }
        ),
        {"max_num_seqs": 2},
    ),
    "a head that will hit what a decode fills": (
        Trace.from_columns(
            {
                "arrival_ns": [0, 4_000_000],
                "prompt_tokens": [8, 63],
                "output_tokens": [40, 1],
                "hash_ids": [[0], list(range(7))],
                "output_hash_ids": [[1, 2, 3, 4, 5], []],
            },
            hash_block_tokens=8,
        ),
        {"block_size": 8, "num_gpu_blocks": 9, "max_model_len": 64},
    ),
}


@pytest.mark.parametrize("release", sorted(RELEASES))
@pytest.mark.parametrize("case", CASES)
def test_both_ways_give_equal_rows_of(case: str, release: str) -> None:
    trace, flags = CASES[case]
    small = {"num_gpu_blocks": 100, "max_model_len": 200, "max_num_seqs": 8}
    config = SchedulerConfig(
        **{**small, "max_num_batched_tokens": 200, "vllm_version": release, **flags},
        async_scheduling=False,
    )
    assert outcome(trace, config, short_way=True) == outcome(trace, config, short_way=False)


@settings(max_examples=30)
@given(traces(), configs())
def test_counted_blocks_give_the_rows_of_numbered_ones(
    trace: Trace, config: SchedulerConfig
) -> None:
    counted = outcome(trace, config, short_way=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "may_count", lambda *_: False)
        assert outcome(trace, config, short_way=False) == counted


@st.composite
def plain_text(draw: st.DrawFn) -> Trace:
    """Prompts and answers alone: what goes the express way."""
    rows = draw(st.integers(2, 40))

    def some(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))

    output = some(1, draw(st.sampled_from([3, 60])))
    arrival = [0, *sorted(some(0, draw(st.sampled_from([1, 90_000_000]))))[1:]]
    caps = [length + more for length, more in zip(output, some(0, 1), strict=True)]
    columns: dict[str, Any] = {
        "arrival_ns": arrival,
        "prompt_tokens": some(1, draw(st.sampled_from([20, 90]))),
        "output_tokens": output,
        "max_tokens": [None if some else cap for cap, some in zip(caps, some(0, 1), strict=True)],
    }
    if draw(st.booleans()):
        columns["added_ns"] = [at + 3_000_000 for at in arrival]
        columns["group"] = [None if some else "a" for some in some(0, 1)]
    return Trace.from_columns(columns)


@st.composite
def express_configs(draw: st.DrawFn) -> SchedulerConfig:
    block_size, chunked = draw(st.sampled_from([4, 16])), draw(st.booleans())
    return SchedulerConfig(
        vllm_version=draw(st.sampled_from(sorted(RELEASES))),
        max_num_batched_tokens=draw(st.sampled_from([40, 64, 200])) if chunked else 200,
        max_num_scheduled_tokens=draw(st.sampled_from([None, None, 40, 90])) if chunked else None,
        max_num_seqs=draw(st.sampled_from([2, 5, 40])),
        max_model_len=draw(st.sampled_from([100, 160])),
        enable_chunked_prefill=chunked,
        num_gpu_blocks=160 // block_size + draw(st.integers(-8, 60)),
        block_size=block_size,
        enable_prefix_caching=draw(st.booleans()),
        scheduler_reserve_full_isl=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1])),
        async_scheduling=draw(st.booleans()),
    )


EVENTS: list[tuple[Event, ...]] = [
    (),
    (Event(20_000_000, "pause", state="new"), Event(40_000_000, "resume")),
    (Event(30_000_000, "reset_prefix_cache", preempt=True),),
    (Event(25_000_000, "abort", request=1),),
]


@settings(max_examples=120)
@given(
    plain_text(),
    express_configs(),
    st.sampled_from(EVENTS),
    st.booleans(),
    st.sampled_from([1, 7, 40, 65536]),
    st.sampled_from([0, 5_000_000, 7_010_000]),
)
def test_the_express_way_gives_the_rows_of_the_plain_one(
    trace: Trace,
    config: SchedulerConfig,
    events: tuple[Event, ...],
    clock: bool,
    batch: int,
    warmup_ns: int,
) -> None:
    def rows(*, short_way: bool) -> tuple[object, ...]:
        options = ReplayOptions(short_way=short_way, warmup_ns=warmup_ns, events=events)
        runner = ClockRunner(1_000_000, 10_000) if clock else Deployment().make_runner()
        try:
            return rows_of(replay(trace, config, runner, options=options))
        except (StallError, TraceError) as error:
            return (str(error),)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(express, "TELL_EVERY", 1)
        patch.setattr(express, "MOST_PASSES", batch)
        patch.setattr(express, "LONGEST_RUN", batch)
        patch.setattr(express_ahead, "LONGEST_RUN", batch)
        patch.setattr(express_batch, "MOST_ENDED", batch)
        expressly = rows(short_way=True)
    assert expressly == rows(short_way=False)


def one_every_few_passes(count: int = 300) -> Trace:
    return Trace.from_columns(
        {
            "arrival_ns": [5_000_000 * row for row in range(count)],
            "prompt_tokens": [30] * count,
            "output_tokens": [40 + row % 7 for row in range(count)],
        }
    )


class FailsOnce(ClockRunner):
    """Raises an error, or interrupts the process, when it is asked for the `at`-th time."""

    def __init__(
        self, base_ns: int, *, at: int, error: Exception | None = None, runs: bool = True
    ) -> None:
        super().__init__(base_ns)
        self.__dict__.update(left=at, error=error, runs=runs, within=False)

    def _asked(self, *, for_a_run: bool) -> None:
        facts = self.__dict__
        facts["left"] -= facts["runs"] is for_a_run
        if facts["left"]:
            return
        facts["left"] = -1
        if facts["error"] is not None:
            raise facts["error"]
        os.kill(os.getpid(), signal.SIGINT)

    def duration_of(self, num_tokens: int) -> int:
        if not self.__dict__["within"]:
            self._asked(for_a_run=False)
        return super().duration_of(num_tokens)

    def decode_durations(self, *args: int) -> int:
        self._asked(for_a_run=True)
        self.__dict__["within"] = True
        duration = super().decode_durations(*args)
        self.__dict__["within"] = False
        return duration


@pytest.mark.parametrize("async_scheduling", [True, False])
def test_who_has_seen_enough_of_the_express_way_keeps_the_rows_so_far(
    async_scheduling: bool,
) -> None:
    trace = one_every_few_passes()
    config = SchedulerConfig(num_gpu_blocks=40, async_scheduling=async_scheduling)
    seen: list[SoFar] = []

    def enough(replaying: Replay) -> None:
        seen.append(replaying.so_far())
        assert replaying.now_ns == seen[-1].now_ns
        raise EnoughError

    ended = replay(trace, config, ClockRunner(1_000_000), progress=enough)
    whole = replay(trace, config, ClockRunner(1_000_000), options=ReplayOptions(short_way=False))
    (so_far,) = seen
    assert ended.passes.num_rows == so_far.num_passes > 0
    assert ended.passes.equals(whole.passes.slice(0, so_far.num_passes))
    assert ended.summary["requests_finished"] == so_far.num_finished > 0
    assert ended.requests.num_rows == so_far.num_finished + so_far.num_live


@pytest.mark.parametrize("async_scheduling", [True, False])
def test_an_interrupt_in_the_middle_of_a_step_loses_no_row(
    tmp_path: Path, async_scheduling: bool
) -> None:
    trace = one_every_few_passes()
    config = SchedulerConfig(num_gpu_blocks=40, async_scheduling=async_scheduling)

    with pytest.raises(KeyboardInterrupt):
        replay(trace, config, FailsOnce(1_000_000, at=200), out=tmp_path / "cut")
    whole = replay(trace, config, ClockRunner(1_000_000), options=ReplayOptions(short_way=False))
    cut = StoredRun.open(tmp_path / "cut", allow_incomplete=True)
    assert 0 < cut.passes().num_rows < whole.passes.num_rows
    assert cut.passes().equals(whole.passes.slice(0, cut.passes().num_rows))
    ended = [finish is not None for finish in cut.requests()["finish_ns"].to_pylist()]
    assert True in ended
    assert False in ended


def test_an_interrupt_shortly_before_an_event_loses_no_row(tmp_path: Path) -> None:
    trace = Trace.from_columns(
        {"arrival_ns": [0, 5], "prompt_tokens": [30] * 2, "output_tokens": [900] * 2}
    )
    options = ReplayOptions(events=(Event(200_000_000, "abort", request=1),))
    runner = FailsOnce(1_000_000, at=1)
    with pytest.raises(KeyboardInterrupt):
        replay(trace, SchedulerConfig(), runner, options=options, out=tmp_path / "cut")
    cut = StoredRun.open(tmp_path / "cut", allow_incomplete=True)
    assert cut.passes().num_rows > 0
    assert cut.requests().num_rows == trace.num_requests


@pytest.mark.parametrize("async_scheduling", [True, False])
@pytest.mark.parametrize("at", range(1, 60, 7))
@pytest.mark.parametrize("runs", [True, False])
def test_what_a_runner_fails_with_comes_through(
    at: int, runs: bool, async_scheduling: bool
) -> None:
    trace = one_every_few_passes()
    config = SchedulerConfig(num_gpu_blocks=40, async_scheduling=async_scheduling)
    gone = UsageError("the device is gone")
    with pytest.raises(UsageError, match="the device is gone"):
        replay(trace, config, FailsOnce(1_000_000, at=at, error=gone, runs=runs))


@pytest.mark.parametrize("short_way", [True, False])
def test_an_abort_of_all_there_is_to_compute_is_no_stall(short_way: bool) -> None:
    trace = Trace.from_columns(
        {"arrival_ns": [0, 10**9], "prompt_tokens": [90, 9], "output_tokens": [2, 2]}
    )
    config = SchedulerConfig(
        max_num_batched_tokens=30, max_num_seqs=4, num_gpu_blocks=40, async_scheduling=True
    )
    options = ReplayOptions(short_way=short_way, events=(Event(500_000, "abort", request=0),))
    done = replay(trace, config, ClockRunner(1_000_000), options=options)
    assert done.summary["requests_finished"] == 1


@pytest.mark.parametrize("async_scheduling", [True, False])
def test_plain_text_goes_the_express_way_to_its_end(async_scheduling: bool) -> None:
    trace = Trace.from_columns(
        {"arrival_ns": [0, 0, 5], "prompt_tokens": [90, 9, 30], "output_tokens": [9, 60, 1]}
    )
    config = SchedulerConfig(num_gpu_blocks=40, async_scheduling=async_scheduling)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("schedule", "update_from_output"):
            patch.setattr(Scheduler, name, None)
        done = replay(trace, config, ClockRunner(1_000_000))
    assert done.summary["requests_finished"] == trace.num_requests
