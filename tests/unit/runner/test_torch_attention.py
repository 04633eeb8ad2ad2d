"""Attention paths against the loop in float64; pages hold NaN wherever no key lies."""

from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from kernel_figures import ROWS, SHAPES, kernel_error, spec_of  # noqa: E402

import schedbench.runner.torch.attn.select as selecting  # noqa: E402
from schedbench.errors import InvariantError, UsageError  # noqa: E402
from schedbench.runner.torch.attn.reference import (  # noqa: E402
    ALIKE,
    TILE,
    BatchedSdpa,
    LoopAttention,
)
from schedbench.runner.torch.attn.select import (  # noqa: E402
    choose,
    random_pass,
    relative_error,
    self_check,
)
from schedbench.runner.torch.oracle import make_requests  # noqa: E402
from schedbench.runner.torch.runner import make_torch_runner  # noqa: E402
from schedbench.sched.config import SchedulerConfig  # noqa: E402
from schedbench.sched.output import ModelRunnerOutput  # noqa: E402
from schedbench.sched.scheduler import Scheduler  # noqa: E402

torch.set_num_threads(1)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def triton_paged() -> ModuleType:
    """The kernels as Triton's interpreter runs them."""
    pytest.importorskip("triton")
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

    from schedbench.runner.torch.attn import kernels, triton_paged  # noqa: PLC0415

    if not isinstance(kernels.chunk_kernel, InterpretedFunction):
        pytest.skip("Triton was imported without TRITON_INTERPRET=1 (by tests/gpu)")
    return triton_paged


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.usefixtures("triton_paged")
def test_the_kernels_equal_the_loop_in_float32(
    shape: tuple[int, int, int, int], splits: int
) -> None:
    assert kernel_error(shape, splits, torch.float32) < 1e-6


@pytest.mark.parametrize("shape", SHAPES[1:5])
@pytest.mark.usefixtures("triton_paged")
def test_the_kernels_equal_the_loop_in_float16(shape: tuple[int, int, int, int]) -> None:
    assert kernel_error(shape, 4, torch.float16) < 1e-3


@pytest.mark.parametrize("splits", [1, 4])
def test_rows_that_only_pad_a_batch_give_zero_and_change_no_other_row(
    triton_paged: ModuleType, splits: int
) -> None:
    spec = spec_of(8, 2, 64)
    attention = triton_paged.TritonPaged(spec, torch.float32)
    rows = [(1, 0), (1, 40), (1, 333)]
    plain = random_pass(rows, spec, CPU, torch.float32, splits=splits)
    padded = random_pass(rows, spec, CPU, torch.float32, splits=splits, padding=5)
    padded[0][:3] = plain[0]
    alone, out = attention(*plain), attention(padded[0], *plain[1:3], _with_table(padded, plain))
    assert torch.equal(out[:3], alone)
    assert not out[3:].any()


def _with_table(padded: tuple, plain: tuple) -> object:
    """The padded batch over the plain one's blocks."""
    table = torch.zeros_like(padded[3].block_table)
    table[:3] = plain[3].block_table[:3, : table.shape[1]]
    padded[3].block_table = table
    return padded[3]


def test_the_same_batch_gives_the_same_bits_twice(triton_paged: ModuleType) -> None:
    spec = spec_of(8, 2, 64)
    attention = triton_paged.TritonPaged(spec, torch.float16)
    given = random_pass(ROWS, spec, CPU, torch.float16, tile_tokens=attention.tile_tokens, splits=4)
    assert torch.equal(attention(*given), attention(*given))


@pytest.mark.parametrize("qk_norm", [False, True])
def test_the_fused_step_equals_norm_rotation_and_store_one_by_one(
    triton_paged: ModuleType, qk_norm: bool
) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from schedbench.runner.torch.model.ops import TorchOps, rope_table  # noqa: PLC0415
    from schedbench.runner.torch.model.weights import random_weights  # noqa: PLC0415

    spec = replace(spec_of(14, 2, 96), qk_norm=qk_norm)
    layer = random_weights(spec, CPU, torch.float32).layers[0]
    if qk_norm:
        layer.q_norm, layer.k_norm = torch.rand(96) + 0.5, torch.rand(96) + 0.5
    qkv = torch.randn(5, spec.qkv_width)
    rope = rope_table(spec, 100, CPU, torch.float32)[torch.tensor([0, 7, 8, 50, 99])]
    slots = torch.tensor([17, 3, 40, 0, 63], dtype=torch.int32)
    results = []
    for ops in (TorchOps(spec), triton_paged.TritonOps(spec)):
        keys, values = torch.zeros(4, 16, 2, 96), torch.zeros(4, 16, 2, 96)
        q = ops.qkv_to_cache(qkv, layer, rope, slots, keys, values)
        results.append((q, keys, values))
    for plain, fused in zip(*results, strict=True):
        assert relative_error(fused, plain) < 1e-6


def test_the_fused_silu_equals_the_plain_one(triton_paged: ModuleType) -> None:
    from schedbench.runner.torch.model.ops import TorchOps  # noqa: PLC0415

    spec = spec_of(4, 2, 64)
    x = torch.randn(7, 2 * 1500)
    plain = TorchOps(spec).silu_mul(x)
    assert relative_error(triton_paged.TritonOps(spec).silu_mul(x), plain) < 1e-6


@pytest.mark.parametrize(("heads", "kv_heads", "width", "page"), SHAPES)
def test_batched_sdpa_equals_the_loop_over_tiles_and_decodes_of_many_lengths(
    heads: int, kv_heads: int, width: int, page: int
) -> None:
    spec = spec_of(heads, kv_heads, width)
    decodes, chunks = [(1, 37 * n % 300) for n in range(2 * ALIKE)], [(2 * TILE + 1, 0), (TILE, 70)]
    rows = [*ROWS, *decodes, *chunks]
    q, k, v, batch = random_pass(rows, spec, CPU, torch.float32, block_size=page, padding=3)
    expected = LoopAttention(torch.float64)(q.double(), k.double(), v.double(), batch)
    assert relative_error(BatchedSdpa()(q, k, v, batch), expected) < 1e-6


def test_the_slots_that_are_gathered_are_those_of_the_block_table() -> None:
    from schedbench.runner.torch.attn.gather_varlen import packed_slots  # noqa: PLC0415

    spec = spec_of(4, 2, 16)
    _, keys, _, batch = random_pass(ROWS, spec, CPU, torch.float32)
    cu_k = torch.nn.functional.pad(batch.seq_lens.cumsum(0, dtype=torch.int32), (1, 0))
    packed = keys.flatten(0, 1)[packed_slots(batch, cu_k, 16)]
    assert packed.shape[0] == batch.seq_lens_host.sum()
    assert not packed.isnan().any()
    assert len(packed.flatten(1).unique(dim=0)) == len(packed)


def test_an_attention_that_computes_something_else_is_not_started() -> None:
    class Wrong(BatchedSdpa):
        name = "wrong"

        def __call__(self, *given: object) -> torch.Tensor:
            return super().__call__(*given) * 1.01  # type: ignore[arg-type]

    with pytest.raises(InvariantError, match=r"wrong .* the run is not started"):
        self_check(Wrong(), spec_of(4, 2, 16), CPU, torch.float32)


def test_an_attention_that_returns_nan_is_not_started() -> None:
    class Poisoned(BatchedSdpa):
        def __call__(self, *given: object) -> torch.Tensor:
            return super().__call__(*given) * float("nan")  # type: ignore[arg-type]

    with pytest.raises(InvariantError):
        self_check(Poisoned(), spec_of(4, 2, 16), CPU, torch.float32)


@pytest.mark.parametrize(
    ("name", "named"),
    [("fastest", "it is one of"), ("gather_varlen", "CUDA"), ("triton", "needs")],
)
def test_an_attention_that_cannot_run_here_is_refused(
    name: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if selecting.has_triton():
        from triton import knobs  # noqa: PLC0415

        monkeypatch.setattr(knobs.runtime, "interpret", False)
    with pytest.raises(UsageError, match=named):
        choose(name, spec_of(4, 2, 16), CPU, torch.float32)  # type: ignore[arg-type]


def _first_logits(attention: str) -> torch.Tensor:
    """Logits of the first passes of a run with chunks, decodes and shared prefixes."""
    config = SchedulerConfig(
        max_num_batched_tokens=32, max_num_seqs=4, max_model_len=128, num_gpu_blocks=16
    )
    rows: list[torch.Tensor] = []
    runner = make_torch_runner(
        "tiny", device="cpu", attention=attention, on_logits=lambda _, logits: rows.append(logits)
    )
    assert runner.open(config).details["ops"] == ("triton" if attention == "triton" else "torch")
    scheduler = Scheduler(config)
    for request in make_requests(3, 4, longest=40):
        scheduler.add_request(request)
    for _ in range(8):
        output = scheduler.schedule()
        runner.execute(output)
        sampled = dict.fromkeys(output.num_scheduled_tokens, 1)
        for request, _, _ in output.prefills:
            if request.is_prefill_chunk:
                del sampled[request.request_id]
        scheduler.update_from_output(output, ModelRunnerOutput(sampled))
    runner.close()
    return torch.cat(rows)


def test_a_whole_model_through_the_kernels_equals_the_plain_one(triton_paged: ModuleType) -> None:
    assert triton_paged
    fused, plain = _first_logits("triton"), _first_logits("sdpa")
    assert len(plain) > 10
    assert relative_error(fused, plain) < 1e-5
