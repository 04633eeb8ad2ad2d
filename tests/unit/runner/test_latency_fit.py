import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbench.errors import UsageError
from schedbench.runner.capture import capture_sizes
from schedbench.runner.latency.components import ANALYTIC, Coefficients, pnorm
from schedbench.runner.latency.grid import GridPass, Limits, grid_hash, profiling_grid
from schedbench.runner.latency.hardware import find_gpu
from schedbench.runner.latency.work import PassWork, WorkModel
from schedbench.runner.models import BUILT_IN
from schedbench.runner.shapes import Row, of_rows

LIMITS = Limits(8192, 1024, 131_072, 16, 56_998)
SIZES = capture_sizes(1024, 8192)
LLAMA_ON_H200 = WorkModel(BUILT_IN["llama-3.1-8b"], find_gpu("H200"))
TRUTH = Coefficients(60e-6, 4e-3, 1e-6, 30e-6, 0.82, 0.80, 0.48, 0.75, 3.0)
NOISE = 0.03


def _work(passes: list[GridPass]) -> list[PassWork]:
    return [LLAMA_ON_H200.work(each.shape, SIZES if each.may_use_graph else ()) for each in passes]


def _trace_like(seed: int, count: int) -> list[PassWork]:
    """Passes as a server makes them: decodes over ragged contexts, at times beside a chunk."""
    rng = np.random.default_rng(1000 + seed)
    works = []
    for _ in range(count):
        decodes = [Row(1, int(ctx)) for ctx in rng.lognormal(6.5, 0.9, rng.integers(1, 500))]
        chunks = [
            Row(int(rng.integers(2, 2000)), int(rng.choice((0, 2000))))
            for _ in range(rng.integers(0, 3))
        ]
        works.append(LLAMA_ON_H200.work(of_rows(decodes + chunks), SIZES))
    return works


@pytest.mark.parametrize("seed", range(8))
def test_known_coefficients_are_recovered_from_passes_with_noise(seed: int) -> None:
    pytest.importorskip("scipy")
    from schedbench.runner.latency.fit import errors, fit  # noqa: PLC0415

    rng = np.random.default_rng(seed)
    works = _work(profiling_grid(LIMITS, seed))
    assert len(works) >= 130
    seconds = [TRUTH.seconds(work) * (1 + NOISE * rng.standard_normal()) for work in works]
    found = fit(works, seconds).coefficients
    for name in ("e_w", "e_f", "e_a", "e_k", "c_eager_s"):
        assert getattr(found, name) == pytest.approx(getattr(TRUTH, name), rel=0.05), name

    held_out = _trace_like(seed, 300)
    checked = errors(
        [found.seconds(work) for work in held_out], [TRUTH.seconds(work) for work in held_out]
    )
    assert checked.mape < 0.015
    assert checked.p95 < 0.03


def test_the_same_passes_give_the_same_fit() -> None:
    pytest.importorskip("scipy")
    from schedbench.runner.latency.fit import fit  # noqa: PLC0415

    works = _work(profiling_grid(LIMITS))
    seconds = [TRUTH.seconds(work) for work in works]
    assert fit(works, seconds) == fit(works, seconds)


def test_what_no_pass_depends_on_keeps_its_analytic_value_and_is_named() -> None:
    pytest.importorskip("scipy")
    from schedbench.runner.latency.fit import fit  # noqa: PLC0415

    decodes = [each for each in profiling_grid(LIMITS) if each.group in ("decode", "ragged")]
    works = _work(decodes)
    fitted = fit(works, [TRUTH.seconds(work) for work in works])
    assert set(fitted.unidentified) == {"c_eager_s", "c_chunk_s", "e_a"}
    assert fitted.coefficients.e_a == ANALYTIC.e_a


def test_too_few_passes_are_refused() -> None:
    from schedbench.runner.latency.fit import fit  # noqa: PLC0415

    with pytest.raises(UsageError, match="too few"):
        fit([], [])


def _linear_layers(tokens: int) -> float:
    """One layer's products as tiled kernels run them: waves of whole tiles, and a launch each.

    Made here, on purpose not of the model's own form: time goes up in steps, small batches read
    weights at a lower rate, and large ones multiply at one that still grows slowly.
    """
    flops, read, sms = 600e12, 2.6e12, 132
    total = 0.0
    for out, inner in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)):
        tile = 64 if tokens <= 64 else 128
        tiles = -(-tokens // tile) * -(-out // 128)
        waves = -(-tiles // sms)
        rate = flops * (0.85 + 0.15 * min(tokens / 4096, 1.0))
        multiply = waves * sms * 2 * tile * 128 * inner / rate
        load = (2 * out * inner + 2 * tokens * (out + inner)) / (
            read * min(1.0, 0.7 + tokens / 512)
        )
        total += max(multiply, load) + 0.15 * min(multiply, load) + 3e-6
    return total


def test_the_fit_extrapolates_four_times_beyond_its_largest_pass() -> None:
    pytest.importorskip("scipy")
    from schedbench.runner.latency.fit import errors, fit  # noqa: PLC0415

    tokens = np.unique(np.geomspace(1, 16384, 160).astype(int))
    works = [LLAMA_ON_H200.work(of_rows([Row(int(t), 0)])) for t in tokens]
    seconds = [
        32 * _linear_layers(int(count)) + work.attention_s / 0.5
        for count, work in zip(tokens, works, strict=True)
    ]
    cut = int((tokens <= 16384 // 4).sum())
    found = fit(works[:cut], seconds[:cut]).coefficients
    checked = errors([found.seconds(work) for work in works[cut:]], seconds[cut:])
    assert checked.mape < 0.10


shares = st.floats(0.05, 1.2)
constants = st.floats(0.0, 0.01)
any_coefficients = st.builds(
    Coefficients,
    constants,
    constants,
    constants,
    constants,
    shares,
    shares,
    shares,
    shares,
    st.sampled_from((1.5, 2.0, 3.0, 8.0)),
)
any_row = st.builds(Row, st.integers(1, 4000), st.integers(0, 60_000))
any_rows = st.lists(any_row, min_size=1, max_size=12)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-30b-a3b"])
@settings(deadline=None)
@given(coefficients=any_coefficients, rows=any_rows, data=st.data())
def test_more_tokens_or_more_context_never_take_less_time(
    name: str, coefficients: Coefficients, rows: list[Row], data: st.DataObject
) -> None:
    model = WorkModel(BUILT_IN[name], find_gpu("H100"))
    at = data.draw(st.integers(0, len(rows) - 1))
    more = list(rows)
    more[at] = Row(
        rows[at].q + data.draw(st.integers(0, 500)), rows[at].ctx + data.draw(st.integers(0, 5000))
    )
    before = coefficients.seconds(model.work(of_rows(rows), SIZES))
    after = coefficients.seconds(model.work(of_rows(more), SIZES))
    assert after >= before * (1 - 1e-12)


def test_one_more_decode_never_takes_less_time() -> None:
    for model in (LLAMA_ON_H200, WorkModel(BUILT_IN["qwen3-30b-a3b"], find_gpu("H200"))):
        times = [
            ANALYTIC.seconds(model.work(of_rows([Row(1, 1024)] * n), SIZES)) for n in range(1, 700)
        ]
        assert times == sorted(times)


def test_a_p_norm_lies_between_the_maximum_and_the_sum() -> None:
    assert max(3.0, 4.0) < pnorm(3.0, 4.0, 3.0) < 7.0
    assert pnorm(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert pnorm(0.0, 0.0, 3.0) == 0.0


def test_the_grid_has_passes_with_two_to_eight_chunks() -> None:
    counts = {each.shape.num_chunks for each in profiling_grid(LIMITS) if each.group == "chunks"}
    assert counts == {2, 3, 4, 6, 8}


def test_a_smaller_machine_is_asked_only_for_what_fits() -> None:
    small = Limits(2048, 256, 8192, 16, 4000)
    grid = profiling_grid(small)
    assert len(grid) > 60
    assert all(small.allow(each.rows) for each in grid)


def test_a_grid_is_named_by_its_passes_and_not_by_their_order() -> None:
    grid = profiling_grid(LIMITS)
    assert grid_hash(grid) == grid_hash(grid[::-1])
    assert grid_hash(grid) != grid_hash(grid[1:])
