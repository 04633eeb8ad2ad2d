import pytest
from fit_figures import (
    IDENTIFIED,
    LIMITS,
    LLAMA_ON_H200,
    SIZES,
    TRUTH,
    extrapolate,
    recover,
    work_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbench.errors import UsageError
from schedbench.runner.latency.components import ANALYTIC, Coefficients, pnorm
from schedbench.runner.latency.grid import Limits, grid_hash, profiling_grid
from schedbench.runner.latency.hardware import find_gpu
from schedbench.runner.latency.work import WorkModel
from schedbench.runner.models import BUILT_IN
from schedbench.runner.shapes import Row, of_rows


@pytest.mark.parametrize("seed", range(8))
def test_known_coefficients_are_recovered_from_passes_with_noise(seed: int) -> None:
    pytest.importorskip("scipy")
    found = recover(seed)
    assert found.num_passes >= 130
    assert found.off == pytest.approx(dict.fromkeys(IDENTIFIED, 0.0), abs=0.05)
    assert found.held_out.mape < 0.015
    assert found.held_out.p95 < 0.03


def test_the_same_passes_give_the_same_fit() -> None:
    pytest.importorskip("scipy")
    from schedbench.runner.latency.fit import fit  # noqa: PLC0415

    works = work_of(profiling_grid(LIMITS))
    seconds = [TRUTH.seconds(work) for work in works]
    assert fit(works, seconds) == fit(works, seconds)


def test_what_no_pass_depends_on_keeps_its_analytic_value_and_is_named() -> None:
    pytest.importorskip("scipy")
    from schedbench.runner.latency.fit import fit  # noqa: PLC0415

    decodes = [each for each in profiling_grid(LIMITS) if each.group in ("decode", "ragged")]
    works = work_of(decodes)
    fitted = fit(works, [TRUTH.seconds(work) for work in works])
    assert set(fitted.unidentified) == {"c_eager_s", "c_chunk_s", "e_a"}
    assert fitted.coefficients.e_a == ANALYTIC.e_a


def test_too_few_passes_are_refused() -> None:
    from schedbench.runner.latency.fit import fit  # noqa: PLC0415

    with pytest.raises(UsageError, match="too few"):
        fit([], [])


def test_the_fit_extrapolates_four_times_beyond_its_largest_pass() -> None:
    pytest.importorskip("scipy")
    assert extrapolate().mape < 0.10


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
