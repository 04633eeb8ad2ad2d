"""The torch runner under any flags: it follows every decision and changes none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from random_cases import FEATURES, Case, cases

from schedbench.errors import StallError
from schedbench.runner.clock import parse_cost
from schedbench.runner.run import replay

if TYPE_CHECKING:
    from schedbench.runner.api import PassResult, Runner, RunnerInfo
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import SchedulerOutput

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
COMPUTED = frozenset(FEATURES) - {"lora", "speculation", "encoder"}  # the others are refused


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


@settings(max_examples=25)
@given(cases(COMPUTED))
def test_any_trace_under_any_flags_is_executed_and_decided_as_without_it(case: Case) -> None:
    from schedbench.runner.torch.runner import make_torch_runner  # noqa: PLC0415

    trace, config = case.trace(), case.config()
    options = replace(case.replay_options(), short_way=False)  # which is another test's
    try:
        plain = replay(trace, config, parse_cost("pass:1ms"), options=options)
    except StallError:
        return
    runner = OneMillisecond(make_torch_runner("tiny", device="cpu", paranoid=True))
    executed = replay(trace, config, runner, options=options)
    assert executed.passes.equals(plain.passes)
    assert executed.requests.equals(plain.requests)
