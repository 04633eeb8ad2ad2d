"""Measured time is split between the scheduler, the work of the device, and what is beyond it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.explain.measured import Measured, expected_of, measured_of

SEEDS = st.integers(0, 2**32 - 1)
PASSES = 200


def made(seed: int, slow: int = 0, scheduler: float = 0.01) -> Measured:
    """Passes that take 1 ms, 10 us a token and 5 ns a token of context; `slow` take ten times."""
    rng = np.random.default_rng(seed)
    tokens, context = rng.integers(1, 500, PASSES), rng.integers(0, 100_000, PASSES)
    work = np.stack([np.ones(PASSES), tokens, context, tokens > 250], axis=1).astype(float)
    device = work @ np.array([1e6, 1e4, 5.0, 0.0]) * rng.uniform(0.97, 1.03, PASSES)
    device[rng.choice(PASSES, slow, replace=False)] *= 10
    taken = device.round().astype(np.int64)
    return Measured((taken * scheduler).astype(np.int64), taken, expected_of(work, taken))


@given(seed=SEEDS)
def test_passes_that_take_what_their_work_takes_are_explained(seed: int) -> None:
    found = made(seed)
    assert next(iter(found.parts)) == "the work it gave the device"
    assert found.error < 0.03
    assert not found.slow.any()
    assert found.parts["the device, beyond its work"] < 0.03


@given(seed=SEEDS, slow=st.integers(1, 10))
def test_passes_that_take_much_longer_are_counted_and_not_explained(seed: int, slow: int) -> None:
    found = made(seed, slow)
    assert found.slow.sum() == slow
    assert found.parts["the device, beyond its work"] > 0.02


@given(seed=SEEDS)
def test_a_slow_scheduler_is_named_first(seed: int) -> None:
    assert next(iter(made(seed, scheduler=3.0).parts)) == "the scheduler"


@given(seed=SEEDS, slow=st.integers(0, 10))
def test_the_parts_are_all_of_the_time(seed: int, slow: int) -> None:
    assert sum(made(seed, slow).parts.values()) == pytest.approx(1)


def test_a_pass_has_no_say_in_what_is_expected_of_it() -> None:
    rng = np.random.default_rng(0)
    work = np.stack([np.ones(40), rng.integers(1, 99, 40)], axis=1).astype(float)
    taken = (work @ np.array([1e6, 1e4])).astype(np.int64)
    other = taken.copy()
    other[7] *= 100
    assert expected_of(work, taken)[7] == expected_of(work, other)[7]


class _Run:
    """The two tables of a run: every tenth pass had nothing to compute."""

    def timings(self) -> pa.Table:
        device = [0 if n % 10 == 0 else 1_000_000 + 10_000 * n for n in range(50)]
        return pa.table({"pass": [*range(50)], "scheduler_ns": [1000] * 50, "device_ns": device})

    def passes(self) -> pa.Table:
        zero = [0] * 50
        return pa.table(
            {"tokens_scheduled": [*range(50)], "context_tokens": zero, "prefill_tokens": zero}
        )


def test_a_pass_of_nothing_is_left_out() -> None:
    found = measured_of(_Run())  # type: ignore[arg-type]
    assert found is not None
    assert len(found.device_ns) == 45
    assert found.error < 1e-9
