"""The torch runner under any flags: it follows every decision and changes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbench.errors import StallError
from schedbench.runner.clock import parse_cost
from schedbench.runner.events import Event
from schedbench.runner.run import ReplayOptions, replay
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from schedbench.runner.api import PassResult, Runner, RunnerInfo
    from schedbench.sched.output import SchedulerOutput

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
MS = 10**6


class OneMillisecond:
    """Lets the torch runner execute each pass and reports the same time for all."""

    needs_block_ids = True

    def __init__(self, inner: Runner) -> None:
        self._inner = inner

    def open(self, config: SchedulerConfig) -> RunnerInfo:
        return self._inner.open(config)

    def execute(self, scheduler_output: SchedulerOutput) -> PassResult:
        result = self._inner.execute(scheduler_output)
        result.duration_ns = 10**6
        return result

    def close(self) -> None:
        self._inner.close()


@st.composite
def configs(draw: st.DrawFn) -> SchedulerConfig:
    """Few seats, small budgets, and a pool that one request of full length just fits in."""
    block, length = draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from([32, 48]))
    chunked = draw(st.booleans())
    return SchedulerConfig(
        block_size=block,
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(st.sampled_from([8, 16, 40])) if chunked else length,
        max_model_len=length,
        num_gpu_blocks=1 + -(-length // block) * draw(st.sampled_from([1, 1, 2, 6])),
        enable_chunked_prefill=chunked,
        enable_prefix_caching=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 9])),
        scheduler_reserve_full_isl=draw(st.booleans()),
    )


@st.composite
def rows(draw: st.DrawFn, config: SchedulerConfig, number: int) -> dict[str, Any]:
    """A request of which one in two begins as many others do."""
    prompt = draw(st.integers(1, config.max_model_len - 8))
    block = config.block_size * 2
    first = draw(st.sampled_from([0, 0, 1000 * (number + 1)]))
    return {
        "arrival_ns": draw(st.integers(0, 8)) * MS,
        "prompt_tokens": prompt,
        "output_tokens": draw(st.integers(1, 8)),
        "priority": draw(st.integers(0, 2)),
        "abort_after_ns": draw(st.sampled_from([None, None, None, 3 * MS])),
        "hash_ids": [first + index for index in range(-(-prompt // block))],
    }


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_trace_under_any_flags_is_executed_and_decided_as_without_it(
    data: st.DataObject,
) -> None:
    from schedbench.runner.torch.runner import make_torch_runner  # noqa: PLC0415

    config = data.draw(configs())
    count = data.draw(st.integers(1, 10))
    made = [data.draw(rows(config, number)) for number in range(count)]
    made.sort(key=lambda row: row["arrival_ns"])
    made[0]["arrival_ns"] = 0
    columns = {name: [row[name] for row in made] for name in made[0]}
    trace = Trace.from_columns(columns, hash_block_tokens=config.block_size * 2)
    reset = Event(at_ns=data.draw(st.integers(1, 20)) * MS, op="reset_prefix_cache", preempt=True)
    events = [reset] if data.draw(st.booleans()) else []
    options = ReplayOptions(events=events, short_way=False)
    try:
        plain = replay(trace, config, parse_cost("pass:1ms"), options=options)
    except StallError:
        return
    runner = OneMillisecond(make_torch_runner("tiny", device="cpu", paranoid=True))
    executed = replay(trace, config, runner, options=options)
    assert executed.passes.equals(plain.passes)
    assert executed.requests.equals(plain.requests)
