"""The summary of a run: the numbers people compare, from its tables.

Every key says its unit; times are whole nanoseconds of the run's clock. A quotient with nothing
under the line is None. `catalog.py` names each key with its formula and which direction is better.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from schedbench.results.arrays import codes, ints, ratio
from schedbench.results.drafts import DraftTerms, draft_metrics, is_told
from schedbench.results.parts import Rows, last_part, parts
from schedbench.results.pass_metrics import pass_metrics
from schedbench.results.request_metrics import (
    arrivals,
    cut_short,
    goodput,
    late_arrivals,
    latencies,
    request_counts,
    request_sums,
    traffic,
    victims,
    waits,
)
from schedbench.results.spread import Values, spread, spreads

_NS = 10**9


def summarize(
    passes: Rows,
    requests: Rows,
    itl: Rows,
    *,
    slo: Mapping[str, int] | None = None,
    warmup_ns: int = 0,
    drafts: DraftTerms | None = None,
) -> dict[str, Any]:
    """All metrics of a run; `drafts` is given for one with speculative decoding.

    Latencies are those of finished requests; the ones that arrived before `warmup_ns` are left out
    of latencies and goodput, and of nothing else. `itl` comes without them already. `slo` bounds
    `ttft`, `tpot`, `itl` (a request's longest) or `e2e`, in ns.
    """
    start_ns, end_ns = _span(passes, requests)
    pass_side = pass_metrics(passes)
    request_side = request_sums(requests)
    since_ns = max(start_ns, warmup_ns)
    latency = latencies(requests, warmup_ns)
    latency |= spreads(itl, ["interval_ns", "count"], _gaps)
    counts = request_counts(requests)
    scheduled = pass_side["tokens_scheduled"]
    return {
        **counts,
        **cut_short(requests),
        "warmup_ns": warmup_ns,
        "requests_in_warmup": counts["requests"] - late_arrivals(requests, warmup_ns),
        "traffic": traffic(requests),
        "makespan_ns": end_ns - start_ns,
        **_rates(counts["requests_finished"], request_side, scheduled, end_ns - start_ns),
        **latency,
        **({"goodput": goodput(requests, slo, since_ns, end_ns)} if slo else {}),
        **pass_side,
        **({"drafts": draft_metrics(passes, drafts)} if drafts and is_told(passes) else {}),
        **request_side,
        **victims(requests),
        "recomputed_share": ratio(request_side["recomputed_tokens"], scheduled),
        "waits": waits(requests),
    }


def summarize_timings(timings: pa.Table) -> dict[str, Any]:
    """Real time by pass, where the runner measured it: it differs from run to run."""
    columns = ("scheduler_ns", "device_ns", "host_ns")
    places, labels = codes(timings, "graph")
    return {
        **{name: spread(ints(timings.select([name]).drop_null(), name)) for name in columns},
        "graph_passes": {label: int((places == i).sum()) for i, label in enumerate(labels)},
    }


def _gaps(part: pa.Table) -> dict[str, Values]:
    return {"itl_ns": (ints(part, "interval_ns"), ints(part, "count"))}


def _span(passes: Rows, requests: Rows) -> tuple[int, int]:
    """From the first arrival to the end of the last pass, ns."""
    ends = ints(last_part(passes, ["end_ns"]), "end_ns")
    begin, _ = arrivals(requests)
    if not requests.num_rows and ends.size:
        begin = int(ints(next(parts(passes, ["start_ns"])), "start_ns")[0])
    return begin, max(begin, int(ends[-1])) if ends.size else begin


def _rates(
    finished: int, sums: Mapping[str, int], scheduled: int, makespan_ns: int
) -> dict[str, float | None]:
    per_second = {
        "requests_per_s": finished,
        "output_tokens_per_s": sums["output_tokens"],
        "scheduled_tokens_per_s": scheduled,
    }
    return {name: ratio(amount * _NS, makespan_ns) for name, amount in per_second.items()}
