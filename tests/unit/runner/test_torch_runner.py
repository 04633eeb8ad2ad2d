import os
from pathlib import Path

import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from schedbench.errors import InvariantError, UnsupportedError, UsageError  # noqa: E402
from schedbench.runner.api import PassResult, RunnerInfo, kind_of  # noqa: E402
from schedbench.runner.clock import parse_cost  # noqa: E402
from schedbench.runner.latency.recorded import RecordedRunner  # noqa: E402
from schedbench.runner.latency.select import make_runner  # noqa: E402
from schedbench.runner.model_config import load_model  # noqa: E402
from schedbench.runner.run import ReplayOptions, Run, replay  # noqa: E402
from schedbench.runner.shapes import PassShape, features, of_rows, rows_of  # noqa: E402
from schedbench.runner.torch.pool import measuring_config  # noqa: E402
from schedbench.runner.torch.runner import TorchRunner, make_torch_runner  # noqa: E402
from schedbench.sched.config import SchedulerConfig  # noqa: E402
from schedbench.sched.output import SchedulerOutput  # noqa: E402
from schedbench.workloads.trace import Trace  # noqa: E402

torch.set_num_threads(1)
TIGHT = SchedulerConfig(
    max_num_batched_tokens=64, max_num_seqs=8, max_model_len=512, num_gpu_blocks=28
)
NOW = ReplayOptions(arrivals="all-at-once")


def test_a_model_too_large_for_this_machine_is_refused_with_options_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("schedbench.runner.torch.pool.free_bytes", lambda _: 2**30)
    with pytest.raises(UsageError, match="Give a smaller --model") as refused:
        measuring_config(
            load_model("llama-3.1-8b"),
            torch.device("cpu"),
            "float32",
            max_num_batched_tokens=512,
            max_num_seqs=8,
        )
    assert "--gpu-memory-utilization" not in str(refused.value)
    assert "--tensor-parallel-size" not in str(refused.value)


def trace_of(count: int = 16) -> Trace:
    """Prompts of which every third begins like the one three before it."""
    prompts = [40 + 11 * (index % 7) for index in range(count)]
    ids = [
        [1000 * (index if index % 3 else 0) + block for block in range(-(-prompt // 16))]
        for index, prompt in enumerate(prompts)
    ]
    table = pa.table(
        {
            "arrival_ns": pa.array([0] * count, pa.int64()),
            "prompt_tokens": pa.array(prompts, pa.int32()),
            "output_tokens": pa.array([3 + 5 * (index % 5) for index in range(count)], pa.int32()),
            "hash_ids": pa.array(ids, pa.list_(pa.field("item", pa.uint64(), nullable=False))),
        }
    )
    return Trace(table, 16)


def run_torch(**options: object) -> Run:
    runner = make_torch_runner("tiny", device="cpu", paranoid=True, **options)
    return replay(trace_of(), TIGHT, runner, options=NOW)


def test_a_replay_with_forward_passes_reports_device_and_host_time_of_each(tmp_path: Path) -> None:
    runner = make_torch_runner("tiny", device="cpu")
    run = replay(trace_of(), TIGHT, runner, options=NOW, out=tmp_path / "run")
    from schedbench.results.stored_run import StoredRun  # noqa: PLC0415

    timings = StoredRun.open(tmp_path / "run").timings()
    passes = run.passes.select(["tokens_scheduled", "duration_ns"]).to_pylist()
    assert timings.num_rows == len(passes) > 20
    for timing, made in zip(timings.to_pylist(), passes, strict=True):
        assert timing["host_ns"] > 0
        if made["tokens_scheduled"]:
            assert timing["device_ns"] == made["duration_ns"] > 0
    assert run.manifest["time"]["source"] == "measured"
    assert run.summary["preempted"] > 0


def test_decisions_are_those_of_recorded_times_of_the_same_length() -> None:
    measured = run_torch()
    durations = measured.passes.column("duration_ns").to_pylist()
    recorded = replay(trace_of(), TIGHT, RecordedRunner(durations), options=NOW)
    assert measured.summary["preempted"] > 0
    assert measured.passes.column("decisions").equals(recorded.passes.column("decisions"))
    assert measured.passes.equals(recorded.passes)
    assert measured.requests.equals(recorded.requests)


class Watching:
    """A runner that writes down what each pass was, and lets another one execute it."""

    needs_block_ids = True

    def __init__(self, inner: object) -> None:
        self.inner = inner
        self.seen: list[tuple[str, PassShape, PassShape, int]] = []

    def open(self, config: SchedulerConfig) -> RunnerInfo:
        return self.inner.open(config)  # type: ignore[attr-defined, no-any-return]

    def execute(self, output: SchedulerOutput) -> PassResult:
        unsampled = sum(request.is_prefill_chunk for request, _, _ in output.prefills)
        rows = rows_of(output)
        self.seen.append(
            (
                kind_of(output),
                features(output),
                of_rows(rows, num_sampled=len(rows) - unsampled),
                output.total_num_scheduled_tokens,
            )
        )
        result: PassResult = self.inner.execute(output)  # type: ignore[attr-defined]
        result.duration_ns = 10**6  # the same for all, so that all see the same passes
        return result

    def close(self) -> None:
        self.inner.close()  # type: ignore[attr-defined]


def test_one_stream_of_passes_goes_through_all_runners_alike() -> None:
    streams = []
    for inner in (
        parse_cost("pass:1ms"),
        make_runner(),
        RecordedRunner([10**6] * 10_000),
        make_torch_runner("tiny", device="cpu", paranoid=True),
    ):
        watching = Watching(inner)
        replay(trace_of(), TIGHT, watching, options=NOW)
        streams.append(watching.seen)
    assert {kind for kind, _, _, _ in streams[0]} >= {"decode", "prefill", "mixed"}
    for _, quick, slow, tokens in streams[0]:
        assert quick == slow
        assert quick.num_tokens == tokens
    assert all(stream == streams[0] for stream in streams)


def test_what_the_engine_ran_is_what_was_scheduled() -> None:
    runner = make_torch_runner("tiny", device="cpu")
    built: list[tuple[int, int, int]] = []

    watching = Watching(runner)
    original = TorchRunner._forward

    def noting(self: TorchRunner, batch: object, began: int) -> PassResult:
        built.append((batch.num_seqs, batch.num_tokens, batch.num_sampled))  # type: ignore[attr-defined]
        return original(self, batch, began)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TorchRunner, "_forward", noting)
        replay(trace_of(), TIGHT, watching, options=NOW)
    shapes = [shape for _, shape, _, tokens in watching.seen if tokens]
    assert built == [(s.num_seqs, s.num_tokens, s.num_sampled) for s in shapes]


def _tokens(**options: object) -> list[dict[str, int]]:
    runner = make_torch_runner("tiny", device="cpu", keep_tokens=True, **options)
    kept: list[dict[str, int]] = []

    class Keeping(Watching):
        def execute(self, output: SchedulerOutput) -> PassResult:
            result = super().execute(output)
            kept.append(dict(result.tokens or {}))
            return result

    replay(trace_of(), TIGHT, Keeping(runner), options=NOW)
    return kept


def test_batches_padded_as_for_graphs_sample_the_same_tokens() -> None:
    plain, padded = _tokens(), _tokens(pad_decodes=True)
    assert sum(map(len, plain)) > 100
    assert plain == padded


def test_every_attention_samples_the_same_tokens() -> None:
    assert _tokens(attention="sdpa") == _tokens(attention="loop")


def test_another_seed_makes_another_model() -> None:
    assert _tokens(seed=1) != _tokens(seed=2)


def test_the_clock_advances_at_least_by_the_host_time_given() -> None:
    run = run_torch(host_floor_ns=10**9)
    assert run.passes.column("duration_ns").to_pylist() == [10**9] * run.passes.num_rows


def test_a_mixture_routes_by_zipf_when_told_so(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from schedbench.runner.torch.oracle import make_model  # noqa: PLC0415

    make_model("qwen3_moe", tmp_path)
    runner = make_torch_runner(str(tmp_path), device="cpu", zipf=1.2)
    assert runner.open(TIGHT).details["routing"] == "Zipf, exponent 1.2"
    with pytest.raises(UsageError, match="no experts"):
        make_torch_runner("tiny", device="cpu", zipf=1.0).open(TIGHT)


@pytest.mark.parametrize(
    ("model", "options", "config", "error", "named"),
    [
        ("tiny", {"device": "tpu"}, {}, UsageError, "auto, cpu or cuda"),
        ("tiny", {"device": "cpu", "dtype": "int8"}, {}, UsageError, "bfloat16"),
        ("qwen3-0.6b", {"device": "cpu"}, {"max_model_len": 50_000}, UsageError, "40960"),
        ("llama-3.1-70b", {"device": "cpu"}, {}, UsageError, "GiB free. Give a smaller --model"),
        (
            "tiny",
            {"device": "cpu"},
            {"num_gpu_blocks": 10**8},
            UsageError,
            "or less, or a smaller",
        ),
        ("tiny", {"device": "cpu"}, {"max_loras": 2}, UnsupportedError, "max-loras"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_loaded(
    model: str, options: dict[str, str], config: dict[str, int], error: type, named: str
) -> None:
    runner = make_torch_runner(model, **options)
    with pytest.raises(error, match=named):
        runner.open(SchedulerConfig(**config))  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_and_what_to_do_without_one() -> None:
    with pytest.raises(UsageError, match=r"sees no CUDA GPU .* --device cpu"):
        make_torch_runner("tiny", device="cuda").open(TIGHT)


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="speed"):
        make_torch_runner("tiny", speed="fast")


def test_a_block_that_two_requests_hold_is_never_written() -> None:
    runner = make_torch_runner("tiny", device="cpu")
    runner.open(TIGHT)
    from schedbench.runner.torch.invariants import check_written_blocks  # noqa: PLC0415
    from schedbench.runner.torch.synthetic import SyntheticRequest, _Names  # noqa: PLC0415

    for name in ("a", "b"):
        runner.engine.rows.place(SyntheticRequest(name, 5, _Names(0)), [3])
    with pytest.raises(InvariantError, match="holds it uncomputed"):
        check_written_blocks(runner.engine, runner.engine.builder.write({"a": 1}, []))
    runner.close()


def test_a_progress_is_told_of_every_few_passes_since_each_may_take_seconds() -> None:
    told: list[int] = []
    runner = make_torch_runner("tiny", device="cpu")
    options = ReplayOptions(arrivals="all-at-once")
    run = replay(
        trace_of(), TIGHT, runner, options=options,
        progress=lambda replaying: told.append(replaying.so_far().num_passes),
    )  # fmt: skip
    assert len(told) == run.passes.num_rows // 16 > 1


def test_a_run_on_a_cpu_says_that_its_times_are_no_gpus() -> None:
    assert any("CPU: they say nothing of a GPU" in each for each in run_torch().warnings)


def test_running_out_of_gpu_memory_is_said_with_what_would_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = make_torch_runner("tiny", device="cpu")

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(TorchRunner, "_forward", full)
    with pytest.raises(UsageError, match=r"out of memory while computing .*--num-gpu-blocks"):
        replay(trace_of(), TIGHT, runner, options=NOW)


def test_encoder_inputs_are_refused() -> None:
    runner = make_torch_runner("tiny", device="cpu")
    runner.open(TIGHT)
    from schedbench.sched.scheduler import Scheduler  # noqa: PLC0415

    output = Scheduler(TIGHT).schedule()
    output.scheduled_encoder_inputs = {"a": [0]}
    with pytest.raises(UnsupportedError, match="encoder"):
        runner.execute(output)
    runner.close()


def test_the_environment_of_these_tests_interprets_triton() -> None:
    assert os.environ["TRITON_INTERPRET"] == "1"
