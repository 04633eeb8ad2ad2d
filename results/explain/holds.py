"""Two facts about every moment in the queues: what ended admission, and what would hold it first.

A request that waits is booked under what ended the pass's admission loop, or set it aside. That
need not be what holds this request: it may stand behind another one, or lack something else. So
the second fact is what the request would lack if it stood at the head of the queue.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, ints

BEHIND_THE_HEAD: Final = "behind_the_head"
"""A hold: nothing of its own, and no limit that holds every request; it waits for its turn."""

DECODES: Final = -1
"""Who took a pass's budget: no single prompt, but the decodes."""

_LORA: Final = "lora_slots_full"
_SLOTS: Final = "seats_full"
_SHORT: Final = ("kv_blocks_short", "kv_blocks_short_full_sequence", "kv_blocks_short_watermark")
_OF_BUDGET: Final = ("budget_spent", "prompt_over_budget", "padded_decode_unfit")

Pair = tuple[str, str]  # what ended admission, and what would hold the request


@dataclass(frozen=True, slots=True)
class Needs:
    """Free blocks that a request asks for, where nothing else but its adapter can hold it."""

    chunk: int
    whole: int
    lora: int = 0


@dataclass(slots=True)
class Stay:
    """One stay of a request in the queues. `holds`: from when on, ns, what would hold it first."""

    row: int
    begin_ns: int
    end_ns: int | None = None  # None: until the end of the run
    needs: Needs | None = None
    holds: list[tuple[int, str]] = field(default_factory=list)
    aside: list[tuple[int, str]] = field(default_factory=list)  # after which stop, by what

    def note(self, at_ns: int, hold: str) -> None:
        """Note what holds it, where that changes."""
        if not self.holds:
            at_ns = self.begin_ns
        if not self.holds or self.holds[-1][1] != hold:
            self.holds.append((at_ns, hold))


@dataclass(frozen=True, slots=True)
class Stop:
    """How an admission loop ended; it holds until the next one.

    `is_for_all`: it holds every request alike, whichever is at the head. `taker`: the row that took
    most of the budget where that was spent, or DECODES.
    """

    begin_ns: int
    verdict: str
    is_for_all: bool
    head: int | None
    taker: int | None
    loras: frozenset[int]
    slots_full: bool
    headroom_blocks: int


@dataclass(frozen=True, slots=True)
class Holds:
    """Time in the queues, ns: by request and pair, behind which head, after which taker."""

    by_row: Mapping[int, Counter[Pair]]
    behind: Counter[int] = field(default_factory=Counter)
    taken_by: Counter[int] = field(default_factory=Counter)

    def total(self, rows: Iterable[int] | None = None) -> Counter[Pair]:
        """By pair, over all requests or some."""
        found: Counter[Pair] = Counter()
        for row in self.by_row if rows is None else rows:
            found.update(self.by_row.get(row, {}))
        return found


def own_holds(pairs: Mapping[Pair, int]) -> Counter[str]:
    """Sums by the second fact alone."""
    found: Counter[str] = Counter()
    for (_, own), ns in pairs.items():
        found[own] += ns
    return found


def holds_of(
    stays: Sequence[Stay],
    stops: Sequence[Stop],
    passes: pa.Table,
    in_flight_ns: Mapping[int, int],
    end_ns: int,
    *,
    reserves_whole: bool,
    max_loras: int | None,
) -> Holds:
    """Sum up what was noted.

    Args:
        stays: of all requests.
        stops: in order.
        passes: the pass log; blocks free at the end of each `schedule()` are read from it.
        in_flight_ns: by row, how long a request waited for the first `schedule()`.
        end_ns: when the run ended.
        reserves_whole: whether an admission wants blocks for the whole sequence.
        max_loras: adapters in one pass, where they are limited.
    """
    moments = _Moments(stays, stops, passes, end_ns, reserves_whole, max_loras)
    by_row: dict[int, Counter[Pair]] = defaultdict(Counter)
    for row, ns in in_flight_ns.items():
        if ns:
            by_row[row]["pass_in_flight", "pass_in_flight"] += ns
    for stay in stays:
        moments.add(stay, by_row[stay.row])
    return Holds(by_row, *moments.blamed())


class _Moments:
    """The time from each pass, and from each stop, to the next: one row of the arrays each."""

    def __init__(
        self,
        stays: Sequence[Stay],
        stops: Sequence[Stop],
        passes: pa.Table,
        end_ns: int,
        reserves_whole: bool,
        max_loras: int | None,
    ) -> None:
        begins = np.array([each.begin_ns for each in stops], dtype=np.int64)
        starts = ints(passes, "start_ns")
        ends = [end_ns if each.end_ns is None else each.end_ns for each in stays]
        edges = np.array([*(each.begin_ns for each in stays), *ends, end_ns], dtype=np.int64)
        self._times = np.unique(np.concatenate((begins, starts, edges)))
        self._elapsed = np.diff(self._times, append=self._times[-1])
        self._stop = np.maximum(np.searchsorted(begins, self._times, "right") - 1, 0)
        last = np.maximum(np.searchsorted(starts, self._times, "right") - 1, 0)
        free = ints(passes, "kv_blocks_free")
        self._free = free[last] if len(free) else np.zeros(len(self._times), dtype=np.int64)
        self._stops, self._end_ns = stops, end_ns
        self._labels: list[str] = []
        self._verdict = self._of_stop([self._code(each.verdict) for each in stops])
        for_all = self._of_stop([each.is_for_all for each in stops]).astype(bool)
        self._rest = np.where(for_all, self._verdict, self._code(BEHIND_THE_HEAD))
        full = self._of_stop([each.slots_full for each in stops]).astype(bool)
        self._rest = np.where(full, self._code(_SLOTS), self._rest)
        self._heads = self._of_stop(
            [-1 if s.is_for_all or s.head is None else s.head for s in stops]
        )
        self._headroom = self._of_stop([each.headroom_blocks for each in stops])
        self._lora_full: dict[int, np.ndarray[Any, Any]] = {}
        self._max_loras, self._reserves = max_loras, reserves_whole
        self._num_behind = np.zeros(len(self._times), dtype=np.int64)
        self._num_short = np.zeros(len(self._times), dtype=np.int64)

    def _code(self, label: str) -> int:
        if label not in self._labels:
            self._labels.append(label)
        return self._labels.index(label)

    def _of_stop(self, values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)[self._stop]

    def add(self, stay: Stay, pairs: Counter[Pair]) -> None:
        """Add a stay's time to its request's sums, and to those behind whom or what it stood."""
        end_ns = self._end_ns if stay.end_ns is None else stay.end_ns
        first, end = np.searchsorted(self._times, [stay.begin_ns, end_ns])
        if first >= end:
            return
        span = slice(int(first), int(end))
        verdict = self._verdict[span]
        own = self._own(stay, span)
        if stay.aside:
            verdict = verdict.copy()
            for place, label in stay.aside:
                chosen = self._stop[span] == place
                verdict[chosen] = own[chosen] = self._code(label)
        wide = 64  # more than there are labels
        sums = np.bincount(verdict * wide + own, self._elapsed[span])
        for both in np.flatnonzero(sums):
            pair = self._labels[both // wide], self._labels[both % wide]
            pairs[pair] += int(sums[both])
        self._num_behind[span] += (own == self._code(BEHIND_THE_HEAD)) & (
            self._heads[span] != stay.row
        )
        self._num_short[span] += np.isin(own, [self._code(each) for each in _OF_BUDGET])

    def _own(self, stay: Stay, span: slice) -> Ints:
        if stay.holds:
            begins = np.array([at_ns for at_ns, _ in stay.holds], dtype=np.int64)
            codes = np.array([self._code(hold) for _, hold in stay.holds], dtype=np.int64)
            places = np.searchsorted(begins, self._times[span], "right") - 1
            return codes[np.maximum(places, 0)]
        own = self._rest[span].copy()
        if stay.needs is not None:
            self._lacks(stay.needs, span, own)
        chosen = self._heads[span] == stay.row
        own[chosen] = self._verdict[span][chosen]
        return own

    def _lacks(self, needs: Needs, span: slice, own: Ints) -> None:
        free = self._free[span]
        most = max(needs.chunk, needs.whole) if self._reserves else needs.chunk
        chunk, whole, watermark = map(self._code, _SHORT)
        own[free < most + self._headroom[span]] = watermark
        if self._reserves:
            own[free < needs.whole] = whole
        own[free < needs.chunk] = chunk
        if needs.lora and self._max_loras is not None:
            own[self._no_slot_for(needs.lora)[span]] = self._code(_LORA)

    def _no_slot_for(self, lora: int) -> np.ndarray[Any, Any]:
        found = self._lora_full.get(lora)
        if found is None:
            taken = [
                len(each.loras) == self._max_loras and lora not in each.loras
                for each in self._stops
            ]
            found = self._lora_full[lora] = self._of_stop(taken).astype(bool)
        return found

    def blamed(self) -> tuple[Counter[int], Counter[int]]:
        """Time that others waited behind each head, and for the budget that each request took."""
        takers = self._of_stop([-2 if s.taker is None else s.taker for s in self._stops])
        return (
            _summed(self._heads, self._num_behind * self._elapsed),
            _summed(takers, self._num_short * self._elapsed),
        )


def _summed(rows: Ints, ns: Ints) -> Counter[int]:
    chosen = (ns > 0) & (rows >= DECODES)
    sums: Counter[int] = Counter()
    for row, waited in zip(rows[chosen].tolist(), ns[chosen].tolist(), strict=True):
        sums[row] += waited
    return sums
