"""What a request did over time: queued, prefill, decode, preempted; no two at once.

After a preemption its tokens are computed again, which is a `prefill (recompute)`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from schedbench.results.arrays import ints
from schedbench.results.report.evictions import Evictions, evictions
from schedbench.results.report.recomputes import recompute_ends

RECOMPUTE: Final = "prefill (recompute)"

_REQUEST_COLUMNS: Final = (
    "row",
    "request_id",
    "priority",
    "prompt_tokens",
    "output_tokens",
    "arrival_ns",
    "first_scheduled_ns",
    "first_token_ns",
    "finish_ns",
    "cached_tokens",
    "preemptions",
    "finish_reason",
)


Ends: TypeAlias = Mapping[tuple[int, int], tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of a request's life, ns."""

    name: str
    from_ns: int
    to_ns: int
    is_certain: bool = True


def phases(
    passes: pa.Table, requests: pa.Table, policy: str
) -> Iterator[tuple[dict[str, Any], list[Phase]]]:
    """Each request, in the order of the trace, with its phases; open ones end with the run."""
    evicted = evictions(passes, requests, policy)
    ends = recompute_ends(passes, requests, evicted)
    end_ns = ints(passes, "end_ns")
    last_ns = int(end_ns[-1]) if end_ns.size else 0
    in_order = requests.select(_REQUEST_COLUMNS).sort_by("row")
    for batch in in_order.to_batches(max_chunksize=4096):
        for request in batch.to_pylist():
            yield request, list(_phases(request, evicted.get(request["row"]), ends, last_ns))


def _phases(
    request: dict[str, Any], evicted: Evictions | None, ends: Ends, last_ns: int
) -> Iterator[Phase]:
    """Cut a request's life where its collection changes, and where it begins to decode.

    arrival      first scheduled       preempted     resumed                           finish
       | queued         | prefill, decode  | preempted  | prefill (recompute), decode     |
    """
    arrival, first, finish = (
        request[name] for name in ("arrival_ns", "first_scheduled_ns", "finish_ns")
    )
    stop = max(last_ns, arrival) if finish is None else finish
    yield from _phase("queued", arrival, stop if first is None else first)
    if first is None:
        return
    token_ns = request["first_token_ns"]
    runs_from, prefill = first, ("prefill", token_ns, True)
    for span in evicted.spans if evicted else ():
        yield from _running(runs_from, span.evicted_ns, *prefill)
        runs_from = stop if span.resumed_ns is None else span.resumed_ns
        is_certain = evicted is not None and evicted.adds_up
        yield from _phase("preempted", span.evicted_ns, runs_from, is_certain=is_certain)
        computed_ns, is_known = ends.get((request["row"], runs_from), (token_ns, True))
        prefill = (RECOMPUTE, computed_ns, is_certain and is_known)
    yield from _running(runs_from, stop, *prefill)


def _running(
    from_ns: int, to_ns: int, prefill: str, computed_ns: int | None, is_certain: bool
) -> Iterator[Phase]:
    """Prefill until all known tokens are computed, decode from then on."""
    turn = to_ns if computed_ns is None else min(max(computed_ns, from_ns), to_ns)
    yield from _phase(prefill, from_ns, turn, is_certain=is_certain)
    yield from _phase("decode", turn, to_ns, is_certain=is_certain)


def _phase(name: str, from_ns: int, to_ns: int, *, is_certain: bool = True) -> Iterator[Phase]:
    if to_ns > from_ns:
        yield Phase(name, from_ns, to_ns, is_certain)
