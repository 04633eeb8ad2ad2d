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
from schedbench.runner.latency.range_watch import RangeWatch
from schedbench.runner.latency.recorded import RecordedRunner
from schedbench.runner.latency.runner import LatencyRunner
from schedbench.runner.latency.select import make_runner, profile_name
from schedbench.runner.models import BUILT_IN
from schedbench.runner.run import replay
from schedbench.runner.shapes import Row, of_rows
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.output import SchedulerOutput
from schedbench.sched.scheduler import Scheduler
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
    return Trace(table)


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
    assert f" of {run.passes.num_rows} passes" in runner.notes()[0]
    assert run.manifest["runner_details"]["passes_outside_range"] == runner.outside


def _decode(num: int, context: int) -> SchedulerOutput:
    """A pass in which `num` requests decode over `context` computed tokens together."""
    scheduler = Scheduler(CONFIG)
    output = scheduler.schedule()
    output.num_put_aside = output.decode_tokens = num
    output.context_tokens = context
    return output


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("num", [1, 3, 32, 600])
def test_a_run_of_decodes_takes_to_the_bit_what_its_passes_take_one_by_one(
    model: str, num: int
) -> None:
    runner = make_runner(model=model)
    runner.open(CONFIG)
    durations = runner.decode_durations(num, 1000, 50)  # type: ignore[attr-defined]
    singly = [runner.execute(_decode(num, 1000 + num * i)).duration_ns for i in range(50)]
    assert durations.tolist() == singly


def test_the_short_way_and_the_plain_way_take_the_same_times() -> None:
    class Plain:
        """The same runner without the method by which runs of decodes are asked for."""

        needs_block_ids = False

        def __init__(self) -> None:
            self._inner = make_runner()
            self.open, self.execute = self._inner.open, self._inner.execute
            self.close = self._inner.close

    short, plain = replay(_trace(), CONFIG, make_runner()), replay(_trace(), CONFIG, Plain())
    assert short.passes.equals(plain.passes)


def test_passes_of_a_run_that_was_cut_short_are_not_counted() -> None:
    watch, profile = RangeWatch(), _profile()
    first = of_rows([Row(1, 1000)] * 9)  # the range ends at 10,000 keys read
    watch.will_run(profile, first, 500)
    watch.passed(profile, of_rows([Row(1, 1150)] * 9), 9, 9 * 1150)  # after 150 of 500
    assert watch.num_passes == 151
    beyond = sum(9 * (1000 + index + 1) > 10_000 for index in range(151))
    assert watch.outside["keys_read"] == watch.num_outside == beyond > 0


def test_a_run_after_which_someone_is_gone_was_made_to_its_end() -> None:
    watch, profile = RangeWatch(), _profile()
    watch.will_run(profile, of_rows([Row(1, 100)] * 3), 40)
    watch.will_run(profile, of_rows([Row(1, 140)] * 2), 5)
    watch.settle()
    assert (watch.num_passes, watch.num_outside) == (45, 0)


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
