"""How long passes take that never ran: for a replay with other flags than those of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbench.runner.clock import ClockRunner
from schedbench.runner.explain.rerun import same_times

if TYPE_CHECKING:
    from schedbench.results.stored_run import StoredRun
    from schedbench.runner.api import Runner


def modelled(run: StoredRun) -> tuple[Runner, str]:
    """What gives times to passes that the run did not make, and what to say of it.

    The run's own cost or model of time; recorded times do not fit other passes, so that a straight
    line through them has to do.
    """
    if (runner := same_times(run)) is not None:
        return runner, ""
    line = straight_line(run)
    return line, (
        f"the times of the run fit no other passes: here they are {line.description}, a straight "
        "line through them"
    )


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
