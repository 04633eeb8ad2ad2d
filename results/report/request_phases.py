"""What a request did over time: queued, prefill, decode, preempted; no two at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from schedbench.results.arrays import ints
from schedbench.results.report.evictions import Evictions, evictions

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
    end_ns = ints(passes, "end_ns")
    last_ns = int(end_ns[-1]) if end_ns.size else 0
    in_order = requests.select(_REQUEST_COLUMNS).sort_by("row")
    for batch in in_order.to_batches(max_chunksize=4096):
        for request in batch.to_pylist():
            yield request, list(_phases(request, evicted.get(request["row"]), last_ns))


def _phases(request: dict[str, Any], evicted: Evictions | None, last_ns: int) -> Iterator[Phase]:
    """Cut a request's life where its collection changes, and at its first token.

    arrival      first scheduled        evicted      resumed                 finish
       | queued         | prefill, decode  | preempted  | (prefill), decode     |
    """
    arrival, first, finish = (
        request[name] for name in ("arrival_ns", "first_scheduled_ns", "finish_ns")
    )
    stop = max(last_ns, arrival) if finish is None else finish
    yield from _phase("queued", arrival, stop if first is None else first)
    if first is None:
        return
    runs_from, token_ns = first, request["first_token_ns"]
    for span in evicted.spans if evicted else ():
        yield from _running(runs_from, span.evicted_ns, token_ns)
        runs_from = stop if span.resumed_ns is None else span.resumed_ns
        is_certain = evicted is not None and evicted.adds_up
        yield from _phase("preempted", span.evicted_ns, runs_from, is_certain=is_certain)
    yield from _running(runs_from, stop, token_ns)


def _running(from_ns: int, to_ns: int, token_ns: int | None) -> Iterator[Phase]:
    """Prefill until the first token, decode from then on."""
    turn = to_ns if token_ns is None else min(max(token_ns, from_ns), to_ns)
    yield from _phase("prefill", from_ns, turn)
    yield from _phase("decode", turn, to_ns)


def _phase(name: str, from_ns: int, to_ns: int, *, is_certain: bool = True) -> Iterator[Phase]:
    if to_ns > from_ns:
        yield Phase(name, from_ns, to_ns, is_certain)
