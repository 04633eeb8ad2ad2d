"""When a resumed request had computed its tokens again and decodes, worked out from the pass log.

The log says of each pass how many of the requests scheduled in it have known tokens to compute,
but not which. Those that were admitted or resumed by the pass do; so do those whose first token is
still to come, which is in their rows. The others go on with a recompute that an earlier pass began:

    requests_scheduled - decode_tokens  =  admitted + resumed  +  first prefills  +  recomputes

Where fewer go on than could, they are the last to resume: the running loop serves them in order,
and a used-up budget cuts the last one. With a long-prefill threshold it may be others: a doubt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, Mask, ints
from schedbench.results.report.evictions import Evictions

_OPEN_END: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class Recompute:
    """The passes that computed a resumed request's tokens again, by the place of their rows."""

    row: int
    turn: int
    first: int
    last: int
    before: int  # the row of the pass that preempts it next, or of the end
    is_certain: bool = True


def recompute_ends(
    passes: pa.Table, requests: pa.Table, evicted: Mapping[int, Evictions]
) -> dict[tuple[int, int], tuple[int, bool]]:
    """By trace row and start of the resume, ns: its end, and whether the log leaves no doubt."""
    if not evicted:
        return {}
    start_ns, end_ns = ints(passes, "start_ns"), ints(passes, "end_ns")
    carried = ints(passes, "requests_scheduled") - ints(passes, "decode_tokens")
    carried -= ints(passes, "admitted") + ints(passes, "resumed")
    begun, prefilled = _segments(requests, evicted, start_ns, end_ns)
    spent = ints(passes, "tokens_scheduled") >= ints(passes, "token_budget")
    is_cut = np.concatenate(([False], spent[:-1])) & (carried == 1)
    _follow(begun, np.maximum(carried - prefilled, 0), is_cut)
    return {
        (each.row, int(start_ns[each.first])): (int(end_ns[each.last]), each.is_certain)
        for each in begun
    }


def _segments(
    requests: pa.Table, evicted: Mapping[int, Evictions], start_ns: Ints, end_ns: Ints
) -> tuple[list[Recompute], Ints]:
    """The resumes after a first token; and how many first prefills go on in each pass."""
    change = np.zeros(len(start_ns) + 1, np.int64)
    begun: list[Recompute] = []
    for request in _known(requests):
        token_ns = request["first_token_ns"]
        last = int(np.searchsorted(end_ns, _OPEN_END if token_ns is None else token_ns, "right"))
        for turn, from_ns, to_ns in _running(request, evicted.get(request["row"])):
            first = int(np.searchsorted(start_ns, from_ns))
            before = len(start_ns) if to_ns is None else int(np.searchsorted(start_ns, to_ns))
            until = min(last, before)
            if until > first + 1:
                change[first + 1] += 1
                change[until] -= 1
            elif last <= first and before > first:
                begun.append(Recompute(request["row"], turn, first, first, before))
    return sorted(begun, key=lambda each: each.turn), np.cumsum(change)[:-1]


def _known(requests: pa.Table) -> Iterable[dict[str, Any]]:
    names = ("row", "first_scheduled_ns", "first_token_ns", "finish_ns")
    for batch in requests.select(names).to_batches(max_chunksize=4096):
        for request in batch.to_pylist():
            if request["first_scheduled_ns"] is not None:
                yield request


def _running(
    request: Mapping[str, Any], evicted: Evictions | None
) -> Iterable[tuple[int, int, int | None]]:
    """Turn, from when and to when it ran; None where it ran to the end of the run."""
    turn, from_ns = -1, request["first_scheduled_ns"]
    for span in evicted.spans if evicted else ():
        yield turn, from_ns, span.evicted_ns
        if span.resumed_ns is None:
            return
        turn, from_ns = span.turn, span.resumed_ns
    yield turn, from_ns, request["finish_ns"]


def _follow(begun: Iterable[Recompute], going_on: Ints, is_cut: Mask) -> None:
    """Let each recompute last as long as passes follow in which one goes on."""
    under_way: list[Recompute] = []
    at = 0
    for each in begun:
        _advance(under_way, range(at, each.first + 1), going_on, is_cut)
        under_way.append(each)
        at = each.first + 1
    _advance(under_way, range(at, len(going_on)), going_on, is_cut)


def _advance(under_way: list[Recompute], places: range, going_on: Ints, is_cut: Mask) -> None:
    """Follow some passes until no recompute is under way."""
    for place in places:
        alive = [each for each in under_way if each.before > place]
        count = int(going_on[place])
        kept = alive[max(len(alive) - count, 0) :]
        if kept and count != len(alive) and not is_cut[place]:
            for each in alive:
                each.is_certain = False
        for each in kept:
            each.last = place
        under_way[:] = kept
        if not kept:
            return
