import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import schedbench.runner.latency.select as selecting
from schedbench.errors import UsageError
from schedbench.runner.clock import ClockRunner
from schedbench.runner.latency.components import ANALYTIC
from schedbench.runner.latency.hardware import find_gpu
from schedbench.runner.latency.profile import Errors, Profile, load_profile
from schedbench.runner.latency.recorded import RecordedRunner
from schedbench.runner.latency.runner import LatencyRunner
from schedbench.runner.latency.select import make_runner, profile_name
from schedbench.runner.models import BUILT_IN
from schedbench.runner.run import replay
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.trace import Trace

CONFIG = SchedulerConfig(max_num_batched_tokens=512, max_num_seqs=32, max_model_len=4096)
RANGES = {"num_tokens": (1, 256), "keys_read": (1, 10_000)}


def _profile(model: str = "llama-3.1-8b", gpu: str = "H100-SXM") -> Profile:
    return Profile(
        BUILT_IN[model],
        gpu,
        "bfloat16",
        "triton",
        ANALYTIC,
        RANGES,
        Errors(100, 0.02, 0.05, 0.001),
        Errors(300, 0.04, 0.1, -0.01),
        "0123456789abcdef",
        {"torch": "2.11.0"},
    )


def _trace(count: int = 20) -> Trace:
    table = pa.table(
        {
            "arrival_ns": pa.array([index * 10**7 for index in range(count)], pa.int64()),
            "prompt_tokens": pa.array([50 + 13 * index for index in range(count)], pa.int32()),
            "output_tokens": pa.array([4 + index for index in range(count)], pa.int32()),
        }
    )
    return Trace(table, None, None, None)


def test_without_options_it_is_the_roofline_of_llama_8b_on_an_h100_and_says_so() -> None:
    runner = make_runner()
    info = runner.open(CONFIG)
    assert (info.name, info.source) == ("roofline", "model")
    assert info.description == (
        "roofline for llama-3.1-8b on H100-SXM: an estimate, fitted to nothing"
    )
    assert info.details["estimate"] is True


def test_a_typed_cost_gives_the_clock() -> None:
    assert make_runner(cost="pass:1ms") == ClockRunner(1_000_000)


@pytest.mark.parametrize(
    "options", [{"cost": "pass:1ms", "gpu": "H200"}, {"recorded": "runs/x", "model": "tiny"}]
)
def test_sources_of_time_that_exclude_each_other_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no effect"):
        make_runner(**options)  # type: ignore[arg-type]


def test_a_decode_pass_of_the_roofline_reads_the_weights_once() -> None:
    work = make_runner(gpu="H100").work_model  # type: ignore[attr-defined]
    from schedbench.runner.shapes import Row, of_rows  # noqa: PLC0415

    seconds = ANALYTIC.seconds(work.work(of_rows([Row(1, 1024)]), [1]))
    read = (BUILT_IN["llama-3.1-8b"].num_params - 128_256 * 4096) * 2 / (0.8 * 3.35e12)
    assert seconds == pytest.approx(read, rel=0.03)


def test_a_profile_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    for model in ("llama-3.1-8b", "qwen3-30b-a3b"):
        path = tmp_path / f"{model}.json"
        _profile(model).save(path)
        assert load_profile(path) == _profile(model)


@pytest.mark.parametrize(
    ("content", "named"), [("{", "JSON"), ("[]", "schema"), ('{"schema": "x"}', "schema")]
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, content: str, named: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=named):
        load_profile(path)


def test_a_profile_with_a_missing_field_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(_profile().to_json().replace(b'"grid_hash"', b'"hash"'))
    with pytest.raises(UsageError, match="grid_hash"):
        load_profile(path)


def test_a_kept_profile_is_preferred_to_the_roofline(tmp_path: Path) -> None:
    _profile().save(tmp_path / profile_name(BUILT_IN["llama-3.1-8b"], find_gpu("H100")))
    info = make_runner(profiles=tmp_path).open(CONFIG)
    assert info.name == "fitted"
    assert info.description == "profile of llama-3.1-8b on H100-SXM: held-out error 4.0%"
    assert make_runner(gpu="H200", profiles=tmp_path).open(CONFIG).name == "roofline"


def test_a_kept_profile_of_one_gpu_does_not_stand_for_several(tmp_path: Path) -> None:
    _profile().save(tmp_path / profile_name(BUILT_IN["llama-3.1-8b"], find_gpu("H100")))
    runner = make_runner(profiles=tmp_path, tensor_parallel_size=2)
    assert runner.open(CONFIG).description.startswith("roofline for llama-3.1-8b on 2 x H100")


def test_a_profile_of_another_gpu_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    _profile().save(path)
    with pytest.raises(UsageError, match="measured on H100-SXM"):
        make_runner(profile=path, gpu="H200")
    with pytest.raises(UsageError, match="measured with llama"):
        make_runner(profile=path, model="tiny")


def test_passes_beyond_the_measured_range_are_counted_and_told_of() -> None:
    runner = make_runner()
    assert isinstance(runner, LatencyRunner)
    runner.profile = _profile()
    run = replay(_trace(), CONFIG, runner)
    beyond = (run.passes.column("tokens_scheduled").to_numpy() > 256).sum()
    assert runner.outside["num_tokens"] == beyond > 0
    assert f"{runner.num_outside} of {run.passes.num_rows} passes" in runner.notes()[0]
    assert run.manifest["runner_details"]["passes_outside_range"] == runner.outside


def test_a_run_inside_the_range_has_nothing_to_tell() -> None:
    runner = make_runner()
    replay(_trace(), CONFIG, runner)
    assert runner.notes() == []  # type: ignore[attr-defined]


def test_recorded_times_give_the_same_run_again(tmp_path: Path) -> None:
    first = replay(_trace(), CONFIG, make_runner(), out=tmp_path / "run")
    again = replay(_trace(), CONFIG, make_runner(recorded=tmp_path / "run"))
    assert again.passes.equals(first.passes)
    assert again.requests.equals(first.requests)


def test_recorded_times_of_other_flags_are_refused(tmp_path: Path) -> None:
    replay(_trace(), CONFIG, make_runner(), out=tmp_path / "run")
    other = SchedulerConfig(max_num_batched_tokens=64, max_num_seqs=32, max_model_len=4096)
    with pytest.raises(UsageError, match="recorded times fit only"):
        replay(_trace(), other, make_runner(recorded=tmp_path / "run"))


def test_more_passes_than_were_recorded_are_refused() -> None:
    with pytest.raises(UsageError, match="has 3 passes"):
        replay(_trace(), CONFIG, RecordedRunner([10**6] * 3))


def test_the_models_of_time_load_neither_torch_nor_scipy() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['scipy'] = sys.modules['triton'] = None\n"
        "import schedbench.runner.latency.select as s, schedbench.runner.latency.fit\n"
        "import schedbench.runner.latency.grid, schedbench.runner.kvpool\n"
        "print(s.make_runner().description)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "roofline" in done.stdout


def test_every_profile_that_is_shipped_can_be_read() -> None:
    for path in selecting.PROFILES.glob("*.json"):
        found = load_profile(path)
        assert path.name == profile_name(found.model, find_gpu(found.gpu))
