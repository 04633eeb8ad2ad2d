"""What the requests table adds up to: counts, latencies, goodput, waits."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.results.arrays import Ints, Mask, ints, is_known, is_label, known, ratio, total
from schedbench.results.parts import Rows, added_up, distinct, largest_of, nulls
from schedbench.results.spread import Spread, Values, spreads

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
_ARRIVED: Final = ("finish_reason", "arrival_ns")
_WAIT: Final = "wait_"
_NS: Final = 10**9
_HEAD: Final = 4  # the head of the arrivals is the first quarter of their span


def request_counts(requests: Rows) -> dict[str, int]:
    """How many requests there are, and how each of them ended."""

    def of(part: pa.Table) -> dict[str, int]:
        return {
            "requests": part.num_rows,
            "requests_finished": int(is_finished(part).sum()),
            "requests_unfinished": part.column("finish_reason").null_count,
            "requests_aborted": int(is_label(part, "finish_reason", "abort").sum()),
            "requests_errored": int(is_label(part, "finish_reason", "error").sum()),
        }

    return dict(added_up(requests, ["finish_reason"], of))


def cut_short(requests: Rows) -> dict[str, int]:
    """Finished requests that got fewer output tokens than the trace asks for, and how many."""
    names = ("requested_output_tokens", "output_tokens")

    def of(part: pa.Table) -> dict[str, int]:
        requested, got = (ints(part, name) for name in names)
        missing = np.where(is_finished(part), np.maximum(requested - got, 0), 0)
        return {
            "requests_cut_short": int((missing > 0).sum()),
            "output_tokens_cut": total(missing),
        }

    return dict(added_up(requests, [*names, "finish_reason"], of))


def request_sums(requests: Rows) -> dict[str, int]:
    """Tokens that were computed again, and what the cache saved of them."""
    names = ("output_tokens", "recomputed_tokens", "resumed_cached_tokens")
    return dict(added_up(requests, names, partial(_totals, names=names)))


def _totals(part: pa.Table, names: Sequence[str]) -> dict[str, int]:
    return {name: total(ints(part, name)) for name in names}


def victims(requests: Rows) -> dict[str, int]:
    """How many requests were evicted, and how often the one that it hit most."""
    name = "preemptions"
    hit = added_up(requests, [name], lambda part: {name: int((ints(part, name) > 0).sum())})
    most = largest_of(requests, [name], lambda part: {name: ints(part, name)})
    return {"requests_preempted": hit[name], "preemptions_max": most[name] or 0}


def is_finished(requests: pa.Table) -> Mask:
    """Requests that the model ended; aborted, failed and unfinished ones are not."""
    return is_label(requests, "finish_reason", *FINISHED)


def arrived_since(requests: pa.Table, since_ns: int) -> Mask:
    return ints(requests, "arrival_ns") >= since_ns


def late_arrivals(requests: Rows, since_ns: int) -> int:
    """How many arrived since `since_ns`."""

    def of(part: pa.Table) -> dict[str, int]:
        return {"late": int(arrived_since(part, since_ns).sum())}

    return added_up(requests, ["arrival_ns"], of)["late"]


def latencies(requests: Rows, since_ns: int = 0) -> dict[str, Spread]:
    """TTFT, TPOT, E2E and queueing time of finished requests that arrived since `since_ns`."""

    def of(part: pa.Table) -> dict[str, Values]:
        counted = is_finished(part) & arrived_since(part, since_ns)
        ttft, tpot, e2e = ((known(part, name, counted), None) for name in LATENCIES)
        ran = counted & is_known(part, "first_scheduled_ns")
        queued = known(part, "first_scheduled_ns", ran) - ints(part, "arrival_ns")[ran]
        return {"ttft_ns": ttft, "queue_ns": (queued, None), "tpot_ns": tpot, "e2e_ns": e2e}

    return spreads(requests, [*LATENCIES, *_ARRIVED, "first_scheduled_ns"], of)


def goodput(requests: Rows, slo: Mapping[str, int], since_ns: int, end_ns: int) -> dict[str, Any]:
    """Requests within every bound of `slo` (ns), of all that arrived since `since_ns`.

    Aborted and unfinished requests count as missed. A latency that a request does not have, such
    as the TPOT of a single token, is within any bound.
    """

    def of(part: pa.Table) -> dict[str, int]:
        arrived = arrived_since(part, since_ns)
        met = is_finished(part) & arrived
        for name, bound in slo.items():
            within = pc.less_equal(part.column(SLO_COLUMNS[name]), bound)
            met &= np.asarray(pc.fill_null(within, fill_value=True), dtype=np.bool_)
        return {"arrived": int(arrived.sum()), "met": int(met.sum())}

    found = added_up(requests, [*_ARRIVED, *(SLO_COLUMNS[name] for name in slo)], of)
    return {
        "slo_ns": dict(slo),
        "requests_met": found["met"],
        "share": ratio(found["met"], found["arrived"]),
        "requests_per_s": ratio(found["met"] * _NS, end_ns - since_ns),
    }


def waits(requests: Rows) -> dict[str, int]:
    """Time in the queues by verdict, summed over all requests; the longest first."""
    names = [name for name in requests.column_names if name.startswith(_WAIT)]
    untold = nulls(requests, names)
    told = [name for name in names if not untold[name]]
    sums = added_up(requests, told, partial(_totals, names=told))
    return {name.removeprefix(_WAIT): ns for name, ns in sums.most_common() if ns}


def traffic(requests: Rows) -> dict[str, float | None]:
    """What arrived: its rate, over the whole span and over its first quarter; its extremes."""
    first, last = arrivals(requests)
    span = last - first
    head = requests.num_rows - late_arrivals(requests, first + span // _HEAD)
    tokens = ("prompt_tokens", "output_tokens")
    most = largest_of(requests, tokens, lambda part: {name: ints(part, name) for name in tokens})
    return {
        "requests_per_s": ratio(requests.num_rows * _NS, span),
        "head_requests_per_s": ratio(head * _NS, span // _HEAD),
        **{f"{name}_max": most[name] for name in tokens},
        "priorities": len(distinct(requests, "priority")),
        "loras": len(distinct(requests, "lora") - {BASE_MODEL}),
    }


def arrivals(requests: Rows) -> tuple[int, int]:
    """The first and the last, ns; 0 and 0 where there is none."""

    def of(part: pa.Table) -> dict[str, Ints]:
        at = ints(part, "arrival_ns")
        return {"first": -at, "last": at}

    found = largest_of(requests, ["arrival_ns"], of)
    first, last = found["first"], found["last"]
    return (0, 0) if first is None or last is None else (-first, last)
