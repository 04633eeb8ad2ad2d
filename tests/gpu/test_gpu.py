"""What only a GPU can show; skipped where there is none. `schedbench check-gpu` asks for more."""

from pathlib import Path

import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA GPU", allow_module_level=True)
pytest.importorskip("triton")

from schedbench.errors import UsageError  # noqa: E402
from schedbench.runner.latency.recorded import RecordedRunner  # noqa: E402
from schedbench.runner.models import BUILT_IN  # noqa: E402
from schedbench.runner.run import ReplayOptions, replay  # noqa: E402
from schedbench.runner.torch.build import EngineOptions, build_engine  # noqa: E402
from schedbench.runner.torch.check_correct import (  # noqa: E402
    KernelCheck,
    dense_against_transformers,
    flash_against_kernels,
    graphs_against_eager,
    kernels_against_reference,
)
from schedbench.runner.torch.runner import make_torch_runner  # noqa: E402
from schedbench.runner.torch.warm_up import warm_up  # noqa: E402
from schedbench.sched.config import SchedulerConfig  # noqa: E402
from schedbench.workloads.trace import Trace  # noqa: E402

CUDA = torch.device("cuda")
CONFIG = SchedulerConfig(
    max_num_batched_tokens=512, max_num_seqs=32, max_model_len=2048, num_gpu_blocks=400
)


def _trace() -> Trace:
    columns = {
        "arrival_ns": pa.array([0] * 40, pa.int64()),
        "prompt_tokens": pa.array([30 + 17 * (index % 11) for index in range(40)], pa.int32()),
        "output_tokens": pa.array([5 + 9 * (index % 7) for index in range(40)], pa.int32()),
    }
    return Trace(pa.table(columns))


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-0.6b", "qwen3-30b-a3b"])
def test_the_kernels_equal_float64_over_poisoned_pages_and_repeat_to_the_bit(model: str) -> None:
    size = KernelCheck(num_batches=10)
    rows = kernels_against_reference(BUILT_IN[model], CUDA, torch.bfloat16, size)
    assert [row.verdict for row in rows] == ["passed", "passed"]


def test_the_kernels_equal_torchs_flash_attention() -> None:
    row = flash_against_kernels(BUILT_IN["llama-3.1-8b"], CUDA, torch.bfloat16, KernelCheck())
    assert row.verdict == "passed", row


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen3_moe"])
def test_whole_models_equal_transformers_in_float32(family: str) -> None:
    pytest.importorskip("transformers")
    (row,) = dense_against_transformers(CUDA, (family,))
    assert row.verdict == "passed", row


def test_captured_graphs_equal_eager_passes() -> None:
    engine, details = build_engine(EngineOptions("tiny", device="cuda"), CONFIG)
    details.update(warm_up(engine))
    assert details["capture_s"] > 0
    assert set(engine.graphs) == set(engine.sizes)
    assert graphs_against_eager(engine, (1, 3, 9, 33), 200).verdict == "passed"
    engine.release()


def test_a_replay_uses_graphs_compiles_nothing_and_decides_as_its_recorded_times_do() -> None:
    now = ReplayOptions(arrivals="all-at-once")
    runner = make_torch_runner("tiny", device="cuda", paranoid=True)
    measured = replay(_trace(), CONFIG, runner, options=now)
    assert runner.notes() == []
    durations = measured.passes.column("duration_ns").to_pylist()
    recorded = replay(_trace(), CONFIG, RecordedRunner(durations), options=now)
    assert measured.passes.equals(recorded.passes)


def test_a_replay_stores_which_passes_ran_as_graphs(tmp_path: Path) -> None:
    from schedbench.results.stored_run import StoredRun  # noqa: PLC0415

    now = ReplayOptions(arrivals="all-at-once")
    replay(
        _trace(), CONFIG, make_torch_runner("tiny", device="cuda"), options=now, out=tmp_path / "r"
    )
    graphs = StoredRun.open(tmp_path / "r").timings().column("graph").to_pylist()
    assert set(graphs) == {"full", None}


def test_a_pool_beyond_the_gpu_is_refused_before_anything_is_allocated() -> None:
    config = SchedulerConfig(num_gpu_blocks=50_000_000)
    with pytest.raises(UsageError, match="GiB free"):
        make_torch_runner("llama-3.1-8b", device="cuda").open(config)
