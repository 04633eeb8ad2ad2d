"""Fit the components model to measured passes: deterministic, in well under a second.

For a given p and ratio e_w / e_f the p-norm is one known column, and the model is linear. So both
are scanned, and each pair's remaining numbers come from nonnegative least squares on relative
residuals (every pass weighs the same, however long it is). The pair with the least residual wins.

In a dense model reading the weights is nearly as constant as the constant itself: only where the
matrices begin to bind do the two differ. So the constant is held near what starting a captured
graph is known to cost, as one more residual beside those of the passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from schedbench.errors import UsageError
from schedbench.results.extras import remedy
from schedbench.runner.latency.components import ANALYTIC, Coefficients
from schedbench.runner.latency.profile import Errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from schedbench.runner.latency.work import PassWork

    Floats = npt.NDArray[np.float64]

POWERS: Final = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
RATIOS: Final = np.geomspace(0.25, 4.0, 37)
FINE_STEPS: Final = 9  # between the neighbours of the best ratio
MOST_EFFICIENT: Final = 1.2  # a share of the ceiling above this would be no efficiency any more
CONSTANTS: Final = ("c_pass_s", "c_eager_s", "c_seq_s", "c_chunk_s")
LEAST_PASSES: Final = 12
PRIOR_WEIGHT: Final = 0.03 / 100e-6  # 100 us off weigh as much as one pass that is 3 % off


@dataclass(frozen=True, slots=True)
class Fitted:
    """`unidentified`: coefficients that no pass depends on; they keep the analytic value."""

    coefficients: Coefficients
    errors: Errors
    unidentified: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    residual: float
    p: float
    ratio: float
    solution: Floats


def fit(works: Sequence[PassWork], seconds: Sequence[float]) -> Fitted:
    """Fit to measured passes; `works[i]` took `seconds[i]` on the device.

    Raises:
        UsageError: scipy is absent, or there are too few passes.
    """
    if len(works) < LEAST_PASSES:
        raise UsageError(f"{len(works)} passes are too few to fit: at least {LEAST_PASSES}")
    work = np.array(works, dtype=np.float64)
    measured = np.array(seconds, dtype=np.float64)
    best = _scan(work, measured, POWERS, RATIOS)
    step = RATIOS[1] / RATIOS[0]
    near = best.ratio * np.geomspace(1 / step, step, FINE_STEPS)
    best = min(best, _scan(work, measured, (best.p,), near), key=lambda found: found.residual)
    coefficients, unidentified = _read(best, work)
    predicted = [coefficients.seconds(each) for each in works]
    return Fitted(coefficients, errors(predicted, seconds), unidentified)


def errors(predicted: Sequence[float], measured: Sequence[float]) -> Errors:
    """Relative errors of predictions against what was measured."""
    truth, guess = np.asarray(measured), np.asarray(predicted)
    relative = np.abs(guess / truth - 1.0)
    return Errors(
        len(truth),
        float(relative.mean()),
        float(np.percentile(relative, 95)),
        float(guess.sum() / truth.sum() - 1.0),
    )


def _scan(
    work: Floats, measured: Floats, powers: Sequence[float], ratios: Sequence[float] | Floats
) -> _Candidate:
    found = [_solve(work, measured, p, float(ratio)) for p in powers for ratio in ratios]
    return min(found, key=lambda each: each.residual)


def _solve(work: Floats, measured: Floats, p: float, ratio: float) -> _Candidate:
    """Least squares for one p and e_w / e_f; efficiencies are kept at MOST_EFFICIENT or less.

    With x = 1/e >= 1/MOST_EFFICIENT, the unknown is what x exceeds that bound by.
    """
    eager, seqs, chunks, weights, linear, attention, kv, fixed = work.T
    matrices = _pnorm(weights, linear * ratio, p)
    columns = np.stack([np.ones_like(eager), eager, seqs, chunks, matrices, attention, kv], axis=1)
    least = np.array([0.0] * len(CONSTANTS) + [1.0 / MOST_EFFICIENT] * 3)
    least[len(CONSTANTS)] = max(1.0, 1.0 / ratio) / MOST_EFFICIENT  # holds e_w and e_f down
    target = (measured - fixed - columns @ least) / measured
    prior = np.zeros(len(least))
    prior[0] = PRIOR_WEIGHT
    excess, residual = _nnls(
        np.vstack([columns / measured[:, None], prior]),
        np.append(target, PRIOR_WEIGHT * ANALYTIC.c_pass_s),
    )
    return _Candidate(residual, p, ratio, least + excess)


def _pnorm(first: Floats, second: Floats, p: float) -> Floats:
    large = np.maximum(np.maximum(first, second), 1e-30)
    return np.asarray(large * ((first / large) ** p + (second / large) ** p) ** (1.0 / p))


def _nnls(columns: Floats, target: Floats) -> tuple[Floats, float]:
    """Scale the columns, or those of constants and of work differ by many orders."""
    try:
        from scipy.optimize import nnls  # noqa: PLC0415 - only fitting needs scipy
    except ImportError as error:
        raise UsageError(f"fitting a latency profile needs scipy: {remedy('scipy')}") from error
    scale = np.linalg.norm(columns, axis=0)
    scale[scale == 0.0] = 1.0
    solution, residual = nnls(columns / scale, target)
    return solution / scale, float(residual)


def _read(best: _Candidate, work: Floats) -> tuple[Coefficients, tuple[str, ...]]:
    """Turn the solution into coefficients; a column of zeros says nothing about its own."""
    constants = dict(zip(CONSTANTS, map(float, best.solution), strict=False))
    inverse = best.solution[len(CONSTANTS) :]
    shares: dict[str, Any] = {
        "e_w": 1.0 / inverse[0],
        "e_f": 1.0 / inverse[0] / best.ratio,
        "e_a": 1.0 / inverse[1],
        "e_k": 1.0 / inverse[2],
    }
    column = {"c_eager_s": 0, "c_seq_s": 1, "c_chunk_s": 2, "e_a": 5, "e_k": 6}
    unidentified = tuple(name for name, at in column.items() if not work[:, at].any())
    for name in unidentified:
        (constants if name in constants else shares)[name] = getattr(ANALYTIC, name)
    floats = {name: float(value) for name, value in {**constants, **shares}.items()}
    return Coefficients(**floats, p=best.p), unidentified
