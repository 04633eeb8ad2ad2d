"""Nothing is launched outside the pool: kernels do not look where they read and write."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

from schedbench.errors import InvariantError, UsageError  # noqa: E402
from schedbench.runner.latency.fit import LEAST_PASSES  # noqa: E402
from schedbench.runner.latency.grid import Limits, profiling_grid  # noqa: E402
from schedbench.runner.latency.hardware import find_gpu  # noqa: E402
from schedbench.runner.latency.work import WorkModel  # noqa: E402
from schedbench.runner.shapes import Row  # noqa: E402
from schedbench.runner.torch.build import EngineOptions, build_engine  # noqa: E402
from schedbench.runner.torch.check_correct import graphs_against_eager  # noqa: E402
from schedbench.runner.torch.check_speed import (  # noqa: E402
    SpeedCase,
    graph_against_eager_time,
    host_time,
    time_case,
)
from schedbench.runner.torch.measure import time_rows  # noqa: E402
from schedbench.runner.torch.profile import FLAGS, anchor_rows, grid_for, profile  # noqa: E402
from schedbench.runner.torch.runner import TorchRunner  # noqa: E402
from schedbench.runner.torch.synthetic import limits_of  # noqa: E402
from schedbench.runner.torch.warm_up import run_rows, warm_up, warm_up_passes  # noqa: E402
from schedbench.sched.config import SchedulerConfig  # noqa: E402
from schedbench.sched.prefix_identity import BlockNames  # noqa: E402
from schedbench.sched.request import Request  # noqa: E402
from schedbench.sched.scheduler import Scheduler  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from schedbench.runner.torch.engine import Engine
    from schedbench.sched.output import SchedulerOutput

torch.set_num_threads(1)
OPTIONS = EngineOptions("tiny", "cpu", pad_decodes=True)
SMALL = SchedulerConfig(
    max_num_batched_tokens=64, max_num_seqs=8, max_model_len=512, num_gpu_blocks=4
)
LARGE = (Row(1, 100),)  # 7 blocks, of which SMALL has 3


def _work(engine: Engine) -> WorkModel:
    return WorkModel(engine.decoder.spec, find_gpu("H100"), "float32")


LAUNCHES: dict[str, Callable[[Engine], object]] = {
    "timing": lambda engine: time_rows(engine, LARGE, 1),
    "timing, eager": lambda engine: time_rows(engine, LARGE, 1, may_use_graph=False),
    "timing, more rows than requests": lambda engine: time_rows(engine, [Row(1, 0)] * 9, 1),
    "timing, more tokens than the buffer": lambda engine: time_rows(engine, [Row(65, 0)], 1),
    "warming up": lambda engine: run_rows(engine, LARGE),
    "graphs against eager": lambda engine: graphs_against_eager(engine, (1,), 100),
    "a case of the check": lambda engine: time_case(
        engine, _work(engine), SpeedCase("C2a", "decode", LARGE, None)
    ),
    "host time": lambda engine: host_time(engine, 2, 40, has_bounds=False),
    "graph against eager time": lambda engine: graph_against_eager_time(
        engine, 100, has_bounds=False
    ),
}


def _first_pass() -> SchedulerOutput:
    flags = SMALL.as_dict() | {"num_gpu_blocks": 100}
    scheduler = Scheduler(SchedulerConfig(**flags))
    scheduler.add_request(
        Request("a", num_prompt_tokens=100, max_tokens=1, arrival_time=0, identity=BlockNames(1))
    )
    return scheduler.schedule()


def _executed(engine: Engine) -> object:
    runner = TorchRunner(prebuilt=(engine, {"model": "tiny"}))
    runner._timer = None  # type: ignore[assignment] - it is reached after the check only
    runner.engine = engine
    return runner.execute(_first_pass())


LAUNCHES["a pass of a scheduler with a larger pool"] = _executed


@pytest.mark.parametrize("path", LAUNCHES)
def test_no_path_launches_a_pass_that_the_pool_does_not_hold(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = build_engine(OPTIONS, SMALL)
    monkeypatch.setattr(type(engine), "upload", lambda *_: pytest.fail("it was launched"))
    with pytest.raises((UsageError, InvariantError)) as raised:
        LAUNCHES[path](engine)
    assert any(word in str(raised.value) for word in ("--num-gpu-blocks", "--max-num", "blocks"))
    assert not engine.rows.row_of or "scheduler" in path


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    """Pools, budgets and lengths from one block, token and request on."""
    return Limits(
        max_num_batched_tokens=draw(st.integers(1, 40) | st.sampled_from([512, 8192])),
        max_num_seqs=draw(st.integers(1, 10) | st.sampled_from([64, 512])),
        max_model_len=draw(st.integers(1, 80) | st.sampled_from([2048, 40960])),
        block_size=draw(st.sampled_from([1, 2, 16, 64])),
        num_gpu_blocks=draw(st.integers(1, 60) | st.sampled_from([400, 30_000])),
    )


@settings(max_examples=40)
@given(limits(), st.booleans())
def test_every_pass_that_is_made_for_an_engine_fits_it(given_limits: Limits, on_gpu: bool) -> None:
    made = [each.rows for each in profiling_grid(given_limits)]
    made += warm_up_passes(given_limits, on_gpu=on_gpu)
    if given_limits.num_gpu_blocks > 1:
        made.append(anchor_rows(given_limits))
    refusals = {given_limits.refusal(rows) for rows in made}
    assert refusals <= {None}
    assert all(row.q > 0 and row.ctx >= 0 for rows in made for row in rows)


@pytest.mark.parametrize(
    "given_limits",
    [Limits(512, 16, 2048, 16, 3), Limits(1, 1, 2048, 16, 400), Limits(64, 8, 64, 16, 9)],
)
def test_a_grid_that_is_too_small_to_fit_names_a_flag_and_a_range_that_is_enough(
    given_limits: Limits,
) -> None:
    with pytest.raises(UsageError) as raised:
        grid_for(given_limits, 0)
    remedy = str(raised.value).partition("Give ")[2]
    for flag, value in re.findall(r"(--[a-z-]+) (\d+) or more", remedy):
        enough = replace(given_limits, **{FLAGS[flag]: int(value)})
        assert len(grid_for(enough, 0)) >= LEAST_PASSES
    assert "or more" in remedy or "larger ones" in remedy


@pytest.mark.parametrize("blocks", [2, 9, 40, 150])
@pytest.mark.parametrize(("tokens", "seqs", "length"), [(512, 16, 2048), (64, 3, 100)])
def test_a_profile_of_a_small_pool_is_made_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, blocks: int, tokens: int, seqs: int, length: int
) -> None:
    config = SchedulerConfig(
        max_num_batched_tokens=tokens, max_num_seqs=seqs, max_model_len=length,
        num_gpu_blocks=blocks,
    )  # fmt: skip
    out = tmp_path_factory.mktemp("profile")

    def made() -> Path:
        return profile(OPTIONS, config, out, num_held_out=5, warm_s=0.0, say=lambda _: None).path

    fits = len(profiling_grid(Limits(tokens, seqs, length, 16, blocks))) >= LEAST_PASSES
    if fits:
        assert made().is_file()
    else:
        with pytest.raises(UsageError, match=r"a fit needs 12\. Give --"):
            made()


def test_an_engine_warms_up_in_the_smallest_pool() -> None:
    config = SchedulerConfig(
        max_num_batched_tokens=8, max_num_seqs=4, max_model_len=16, num_gpu_blocks=2
    )
    engine, _ = build_engine(OPTIONS, config)
    assert warm_up(engine) == {}
    assert limits_of(engine).num_gpu_blocks == 2
