"""What a policy costs, and what it leaves alone."""

from pathlib import Path
from typing import Any

import pytest
from by_hand import PLENTY, TIGHT, make, step

from schedbench import Policy, Request, Scheduler, SchedulerConfig, State
from schedbench.runner.run import ReplayOptions, Run, replay
from schedbench.sched.policy import HOOKS
from schedbench.sched.steady import SteadyDecodes, is_possible
from schedbench.sched.verdicts import Verdict
from schedbench.workloads.trace import Trace


class LastFirst(Policy):
    def waiting_key(self, request: Request, state: State) -> int:
        del state
        return -request.arrival_time


def trace_of(rows: int = 60) -> Trace:
    """Requests of two clients that do not fit together in 60 blocks."""
    return Trace.from_columns(
        {
            "arrival_ns": [row * 4_000_000 for row in range(rows)],
            "prompt_tokens": [30 + row % 7 * 20 for row in range(rows)],
            "output_tokens": [20 + row % 5 * 10 for row in range(rows)],
            "client": [row % 2 for row in range(rows)],
        }
    )


def replayed(policy_class: str | None, **flags: Any) -> Run:  # noqa: ANN401
    config = SchedulerConfig(**{"num_gpu_blocks": 60, "max_model_len": 512, **flags})
    return replay(trace_of(), config, options=ReplayOptions(policy_class=policy_class))


def test_vllms_own_policy_has_no_hooks_so_that_nobody_is_asked() -> None:
    assert Scheduler(PLENTY).hooks == frozenset()
    assert Scheduler(PLENTY, policy=Policy()).hooks == frozenset()
    assert Scheduler(PLENTY, policy=LastFirst()).hooks == {"waiting_key"}


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every hook overridden with what vLLM decides, in a module that can be named."""
    lines = ["import schedbench", "", "class Plain(schedbench.Policy):"]
    for hook in HOOKS:
        lines += [
            f"    def {hook}(self, *args, **kwargs):",
            f"        return super().{hook}(*args, **kwargs)",
        ]
    (tmp_path / "plain_policy.py").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "plain_policy:Plain"


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_hooks_that_decide_as_vllm_does_make_the_same_run(plain: str, policy: str) -> None:
    flags = {"policy": policy, "watermark": 0.05, "async_scheduling": False}
    ours, own = replayed(None, **flags), replayed(plain, **flags)
    assert ours.summary["preempted"] > 0
    columns = [name for name in ours.passes.column_names if name != "decisions"]
    assert own.passes.select(columns).to_pydict() == ours.passes.select(columns).to_pydict()
    assert own.requests.equals(ours.requests)


def test_the_short_way_is_not_taken_with_a_policy() -> None:
    sync = SchedulerConfig(**{**PLENTY.as_dict(), "max_num_seqs": 4})
    assert is_possible(Scheduler(sync, counts_blocks=True))
    scheduler = Scheduler(sync, policy=LastFirst(), counts_blocks=True)
    assert not is_possible(scheduler)
    assert not SteadyDecodes(scheduler).enter(lambda _: True)


def test_the_dry_run_of_a_closed_pass_asks_a_copy() -> None:
    class Counting(Policy):
        def __init__(self) -> None:
            self.asked: list[str] = []

        def waiting_key(self, request: Request, state: State) -> int:
            del state
            self.asked.append(f"key {request.request_id}")
            return request.arrival_time

        def may_admit(self, request: Request, state: State) -> bool:
            del state
            self.asked.append(f"admit {request.request_id}")
            return True

    policy = Counting()
    scheduler = make(TIGHT, policy, 10, 10, 4, 4, 4)
    asked = 0
    for _ in range(30):
        asked = len(policy.asked)
        output = step(scheduler)
        if output.admissions_cancelled:
            break
    assert output.admission_stop is Verdict.CLOSED_BY_PREEMPTION
    assert policy.asked[asked:] == []
