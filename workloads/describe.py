"""What a trace holds and what it demands of a server, in numbers; printing is somebody else's."""

from dataclasses import dataclass

import numpy as np

from schedbench.workloads.arrays import known, required
from schedbench.workloads.arrival_profile import NS_PER_S, ArrivalProfile, profile_arrivals
from schedbench.workloads.findings import Finding, find_oddities
from schedbench.workloads.plot import histogram_lines, sparkline
from schedbench.workloads.reuse import Reuse, ideal_reuse
from schedbench.workloads.spread import Spread, spread
from schedbench.workloads.trace import Trace


@dataclass(frozen=True, slots=True)
class Demand:
    """Tokens a second that the trace asks for over its duration.

    `computed_prompt` leaves out what an infinite prefix cache would serve; equal to `prompt` where
    nothing is known about prefixes.
    """

    prompt: float
    computed_prompt: float
    output: float


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """`closed_loop`: rows that wait for an earlier row instead of the clock."""

    sessions: int
    turns: Spread | None
    closed_loop: int


@dataclass(frozen=True, slots=True)
class Description:
    requests: int
    digest: str
    columns: tuple[str, ...]
    prompt_tokens: Spread
    output_tokens: Spread
    total_prompt_tokens: int
    total_output_tokens: int
    arrivals: ArrivalProfile
    demand: Demand | None
    reuse: Reuse | None
    sessions: SessionSummary | None
    findings: tuple[Finding, ...]


def describe(
    trace: Trace, *, block_size: int = 16, max_model_len: int | None = None
) -> Description:
    """Everything at once; `block_size` is the scheduler's, for prefix reuse.

    Raises UsageError when block_size and the trace's hash blocks don't divide one another.
    """
    prompt = required(trace.table, "prompt_tokens")
    output = required(trace.table, "output_tokens")
    arrivals = profile_arrivals(np.sort(required(trace.table, "arrival_ns")))
    reuse = ideal_reuse(trace, block_size)
    prompts, outputs = spread(prompt), spread(output)
    assert prompts is not None, "a trace holds at least one row"
    assert outputs is not None, "a trace holds at least one row"
    totals = int(prompt.sum(dtype=np.int64)), int(output.sum(dtype=np.int64))
    return Description(
        requests=trace.num_requests,
        digest=trace.digest,
        columns=tuple(trace.table.column_names),
        prompt_tokens=prompts,
        output_tokens=outputs,
        total_prompt_tokens=totals[0],
        total_output_tokens=totals[1],
        arrivals=arrivals,
        demand=_demand(*totals, reuse, arrivals.duration_ns),
        reuse=reuse,
        sessions=_sessions(trace),
        findings=tuple(find_oddities(trace, arrivals, max_model_len)),
    )


def _demand(prompt: int, output: int, reuse: Reuse | None, duration_ns: int) -> Demand | None:
    """None when everything arrives at once: then there is no rate."""
    if not duration_ns:
        return None
    seconds = duration_ns / NS_PER_S
    computed = prompt - (reuse.hit_tokens if reuse else 0)
    return Demand(prompt / seconds, computed / seconds, output / seconds)


def _sessions(trace: Trace) -> SessionSummary | None:
    has_session = known(trace.table, "session")
    if has_session is None:
        return None
    _, turns = np.unique(required(trace.table, "session")[has_session], return_counts=True)
    waits = known(trace.table, "after")
    closed = 0 if waits is None else int(np.count_nonzero(waits))
    return SessionSummary(int(turns.size), spread(turns), closed)


def rate_plot(profile: ArrivalProfile) -> list[str]:
    """Arrivals over time: a sparkline, then its scale."""
    if not profile.duration_ns:
        return []
    top = int(profile.counts.max()) * NS_PER_S / profile.window_ns
    seconds = profile.duration_ns / NS_PER_S
    return [sparkline(profile.counts), f"0 s to {seconds:,.0f} s, up to {top:,.3g} requests/s"]


def length_plots(trace: Trace, width: int = 40) -> dict[str, list[str]]:
    """Histograms of prompt and output tokens by power of two."""
    names = ("prompt_tokens", "output_tokens")
    return {name: histogram_lines(required(trace.table, name), width) for name in names}
