"""How long passes take that never ran: for a replay with other flags than those of the run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from schedbench.errors import SchedbenchError
from schedbench.runner.clock import ClockRunner, parse_cost
from schedbench.runner.explain.rerun import typed_cost
from schedbench.runner.latency.runner import LatencyRunner
from schedbench.runner.latency.select import make_runner

if TYPE_CHECKING:
    from schedbench.results.stored_run import StoredRun
    from schedbench.runner.api import Runner


def modelled(run: StoredRun) -> tuple[Runner, str]:
    """What gives times to passes that the run did not make, and what to say of it.

    The run's own cost or model of time; recorded times do not fit other passes, so that a straight
    line through them has to do.
    """
    if (cost := typed_cost(run)) is not None:
        return parse_cost(cost), ""
    if (model := _same_model(run)) is not None:
        return model, ""
    line = straight_line(run)
    return line, (
        f"the times of the run fit no other passes: here they are {line.description}, a straight "
        "line through them"
    )


def _same_model(run: StoredRun) -> Runner | None:
    """The run's model of time, if it is to be had here just as it was then."""
    time, details = run.manifest["time"], run.manifest.get("runner_details", {})
    if time["source"] != "model":
        return None
    try:
        runner = make_runner(
            model=details["model"],
            gpu=details["gpu"],
            dtype=details["dtype"],
            tensor_parallel_size=details["tensor_parallel_size"],
            eager=not details["captured_sizes"],
        )
    except (KeyError, SchedbenchError):
        return None
    if not isinstance(runner, LatencyRunner) or runner.description != time["description"]:
        return None
    return runner if asdict(runner.coefficients) == details["coefficients"] else None


def straight_line(run: StoredRun) -> ClockRunner:
    """A base and a cost for each token, by least squares over the passes of a run."""
    passes = run.passes(["tokens_scheduled", "duration_ns"])
    tokens, times = (passes.column(name).to_numpy() for name in passes.column_names)
    if len(tokens) == 0:
        return ClockRunner(1)
    columns = np.column_stack([np.ones(len(tokens)), tokens])
    base, per_token = np.linalg.lstsq(columns, times.astype(np.float64), rcond=None)[0]
    if per_token <= 0 or base <= 0:
        return ClockRunner(max(1, round(float(times.mean()))))
    return ClockRunner(round(base), round(per_token))
