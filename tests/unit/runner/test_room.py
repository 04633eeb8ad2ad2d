"""The room of a GPU in what is tried: what it has no room for says what that takes."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest
from explain_runs import COST, MS, Case

from schedbench.runner.deployment import Deployment
from schedbench.runner.explain.preemptions import PreemptionWatcher
from schedbench.runner.explain.remedies import find_remedies
from schedbench.runner.explain.rerun import Rerun, look_on
from schedbench.runner.explain.room import room_of, what_it_takes
from schedbench.runner.explain.trials import try_changes
from schedbench.sched.config import SchedulerConfig

if TYPE_CHECKING:
    from pathlib import Path

DEPLOYMENTS = [
    Deployment(cost=COST),
    Deployment(cost=COST, gpu="A100-40GB"),
    Deployment(cost=COST, gpu="L40S", tensor_parallel_size=2),
    Deployment(model="llama-3.1-8b", gpu="H200", gpu_memory_utilization=0.5),
]


def given_options(takes: str) -> list[dict[str, Any]]:
    """The options that a sentence names, one way out each."""
    found = re.findall(r"--([a-z-]+) (\S+)", takes)
    typed = {"gpu_memory_utilization": float, "tensor_parallel_size": int, "gpu": str}
    names = [(name.replace("-", "_"), value) for name, value in found]
    return [{name: typed[name](value)} for name, value in names]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
@pytest.mark.parametrize("block_size", [16, 64])
def test_what_a_derived_pool_has_no_room_for_says_what_gives_the_room(
    deployment: Deployment, block_size: int
) -> None:
    config = deployment.config({"block_size": block_size})
    room = config.num_gpu_blocks
    assert not what_it_takes(deployment, config, {})
    assert not what_it_takes(deployment, config, {"num_gpu_blocks": room - 1})
    smaller = {"block_size": block_size // 2, "num_gpu_blocks": 2 * room - 2}
    assert not what_it_takes(deployment, config, smaller)
    for factor in (1.02, 2):
        other = dataclasses.replace(config, num_gpu_blocks=int(factor * room))
        takes = what_it_takes(deployment, config, {"num_gpu_blocks": other.num_gpu_blocks})
        ways = given_options(takes)
        assert ways
        for way in ways:
            given = room_of(dataclasses.replace(deployment, **way), other)
            assert given is not None
            assert given >= other.num_gpu_blocks


def test_a_typed_pool_is_bounded_only_by_a_gpu_or_a_model_that_is_given() -> None:
    config = SchedulerConfig(num_gpu_blocks=4000)
    large = {"num_gpu_blocks": 10_000_000}
    assert not what_it_takes(Deployment(cost=COST), config, large)
    assert what_it_takes(Deployment(cost=COST, gpu="H200"), config, large)
    beyond = SchedulerConfig(num_gpu_blocks=5_000_000)
    assert not what_it_takes(Deployment(cost=COST, gpu="H200"), beyond, large)


def thrash(folder: Path, **flags: Any) -> Rerun:  # noqa: ANN401 (flags of any type)
    case = Case(
        {"arrival_ns": [0, 3 * MS], "prompt_tokens": [96, 128], "output_tokens": [40, 4]},
        {
            "num_gpu_blocks": 11,
            "max_model_len": 256,
            "max_num_batched_tokens": 32,
            "max_num_seqs": 8,
            "scheduler_reserve_full_isl": False,
            **flags,
        },
    )
    return case.rerun(folder)


def test_a_replay_with_more_blocks_than_the_gpu_holds_says_so(tmp_path: Path) -> None:
    rerun = thrash(tmp_path)
    bounded = dataclasses.replace(rerun.options, deployment=Deployment(cost=COST, gpu="H100-SXM"))
    rerun = dataclasses.replace(rerun, options=bounded)
    changes = [{"num_gpu_blocks": 22}, {"num_gpu_blocks": 60_000}]
    small, large = try_changes(rerun, changes, workers=1).tried
    assert not small.takes
    assert "--tensor-parallel-size 2" in large.takes


def test_preemptions_that_admission_by_the_whole_sequence_ends_are_offered_it(
    tmp_path: Path,
) -> None:
    rerun = thrash(tmp_path)
    watcher = PreemptionWatcher()
    look_on(rerun, watcher)
    assert watcher.evictions
    remedies, _ = find_remedies(rerun, workers=1)
    gate = next(each for each in remedies if each.flag == "scheduler_reserve_full_isl")
    assert gate.value is True
    assert gate.summary is not None
    assert gate.summary["preempted"] == 0


def test_a_switch_that_is_on_is_not_offered(tmp_path: Path) -> None:
    rerun = thrash(tmp_path, scheduler_reserve_full_isl=True, num_gpu_blocks=12)
    remedies, _ = find_remedies(rerun, workers=1)
    assert "scheduler_reserve_full_isl" not in {each.flag for each in remedies}
