"""What the requests table adds up to: counts, latencies, goodput, waits."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.results.arrays import Mask, ints, is_known, is_label, known, largest, ratio, total
from schedbench.results.spread import Spread, spread

FINISHED: Final = ("stop", "length")

LATENCIES: Final = ("ttft_ns", "tpot_ns", "e2e_ns")
SLO_COLUMNS: Final = {
    "ttft": "ttft_ns",
    "tpot": "tpot_ns",
    "itl": "itl_max_ns",
    "e2e": "e2e_ns",
}
"""What an SLO can bound, and the column that is held against the bound."""

BASE_MODEL: Final = 0  # the adapter of a request that needs none
_NS: Final = 10**9
_HEAD: Final = 4  # the head of the arrivals is the first quarter of their span


def request_counts(requests: pa.Table) -> dict[str, int]:
    """How many requests there are, and how each of them ended."""
    return {
        "requests": requests.num_rows,
        "requests_finished": int(is_finished(requests).sum()),
        "requests_unfinished": requests.column("finish_reason").null_count,
        "requests_aborted": int(is_label(requests, "finish_reason", "abort").sum()),
        "requests_errored": int(is_label(requests, "finish_reason", "error").sum()),
    }


def request_sums(requests: pa.Table) -> dict[str, int]:
    """Tokens that were computed again, and what the cache saved of them."""
    names = ("output_tokens", "recomputed_tokens", "resumed_cached_tokens")
    return {name: total(ints(requests, name)) for name in names}


def victims(requests: pa.Table) -> dict[str, int]:
    """How many requests were evicted, and how often the one that it hit most."""
    times = ints(requests, "preemptions")
    return {"requests_preempted": int((times > 0).sum()), "preemptions_max": largest(times) or 0}


def is_finished(requests: pa.Table) -> Mask:
    """Requests that the model ended; aborted, failed and unfinished ones are not."""
    return is_label(requests, "finish_reason", *FINISHED)


def arrived_since(requests: pa.Table, since_ns: int) -> Mask:
    return ints(requests, "arrival_ns") >= since_ns


def latencies(requests: pa.Table, since_ns: int = 0) -> dict[str, Spread]:
    """TTFT, TPOT, E2E and queueing time of finished requests that arrived since `since_ns`."""
    counted = is_finished(requests) & arrived_since(requests, since_ns)
    ttft, tpot, e2e = (spread(known(requests, name, counted)) for name in LATENCIES)
    return {
        "ttft_ns": ttft,
        "queue_ns": _queueing(requests, counted),
        "tpot_ns": tpot,
        "e2e_ns": e2e,
    }


def _queueing(requests: pa.Table, counted: Mask) -> Spread:
    ran = counted & is_known(requests, "first_scheduled_ns")
    started = known(requests, "first_scheduled_ns", ran)
    return spread(started - ints(requests, "arrival_ns")[ran])


def goodput(
    requests: pa.Table, slo: Mapping[str, int], since_ns: int, end_ns: int
) -> dict[str, Any]:
    """Requests within every bound of `slo` (ns), of all that arrived since `since_ns`.

    Aborted and unfinished requests count as missed. A latency that a request does not have, such
    as the TPOT of a single token, is within any bound.
    """
    arrived = arrived_since(requests, since_ns)
    met = is_finished(requests) & arrived
    for name, bound in slo.items():
        within = pc.less_equal(requests.column(SLO_COLUMNS[name]), bound)
        met &= np.asarray(pc.fill_null(within, fill_value=True), dtype=np.bool_)
    good = int(met.sum())
    return {
        "slo_ns": dict(slo),
        "requests_met": good,
        "share": ratio(good, int(arrived.sum())),
        "requests_per_s": ratio(good * _NS, end_ns - since_ns),
    }


def waits(requests: pa.Table) -> dict[str, int]:
    """Time in the queues by verdict, summed over all requests; the longest first."""
    names = [
        name
        for name in requests.column_names
        if name.startswith("wait_") and requests.column(name).null_count == 0
    ]
    sums = {name.removeprefix("wait_"): total(ints(requests, name)) for name in names}
    return dict(sorted(((k, v) for k, v in sums.items() if v), key=lambda each: -each[1]))


def traffic(requests: pa.Table) -> dict[str, float | None]:
    """What arrived: its rate, over the whole span and over its first quarter; its extremes."""
    at = ints(requests, "arrival_ns")
    first, span = (int(at.min()), int(at.max() - at.min())) if at.size else (0, 0)
    head = int((at < first + span // _HEAD).sum())
    return {
        "requests_per_s": ratio(at.size * _NS, span),
        "head_requests_per_s": ratio(head * _NS, span // _HEAD),
        "prompt_tokens_max": largest(ints(requests, "prompt_tokens")),
        "output_tokens_max": largest(ints(requests, "output_tokens")),
        "priorities": len(np.unique(ints(requests, "priority"))),
        "loras": len(np.setdiff1d(ints(requests, "lora"), [BASE_MODEL])),
    }
