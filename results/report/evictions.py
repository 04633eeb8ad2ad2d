"""When each evicted request ran again, worked out from the pass log.

The log names the victims of a pass, but of those that resume only how many. Who they are follows
from the queue: an evicted request goes to its head, and admission takes from there (`fcfs`), or
the most urgent comes first (`priority`). The time that a request spent in the queues is in its
row, so every answer can be checked; those that do not add up are marked.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pyarrow as pa

from schedbench.results.arrays import ints

PRIORITY: Final = "priority"


@dataclass(frozen=True, slots=True)
class Eviction:
    """From when to when a request stood in the queue again; None where the run ended before.

    `turn` numbers those that resumed, in the order of their admissions.
    """

    evicted_ns: int
    resumed_ns: int | None
    turn: int = -1


@dataclass(frozen=True, slots=True)
class Evictions:
    """All evictions of a request; `adds_up` if they explain all the time it waited."""

    spans: tuple[Eviction, ...]
    adds_up: bool


def evictions(passes: pa.Table, requests: pa.Table, policy: str) -> dict[int, Evictions]:
    """By trace row, those that were ever evicted."""
    rows = {row: place for place, row in enumerate(ints(requests, "row").tolist())}
    facts = _facts(requests)
    queue = _Queue(policy == PRIORITY, facts)
    spans: dict[int, list[Eviction]] = {}
    turns = count()
    for start_ns, resumed, victims in _changes(passes):
        for row, evicted_ns in queue.take_ended(start_ns):
            spans.setdefault(row, []).append(Eviction(evicted_ns, facts[row]["finish_ns"]))
        for row in victims:  # those of a cache reset may run again in the same pass
            queue.put(row, start_ns)
        for row, evicted_ns in queue.take(resumed):
            spans.setdefault(row, []).append(Eviction(evicted_ns, start_ns, next(turns)))
    for row, evicted_ns in queue.left():
        spans.setdefault(row, []).append(Eviction(evicted_ns, facts[row]["finish_ns"]))
    waits = _waits(requests)
    return {
        row: Evictions(tuple(each), _adds_up(facts[row], each, waits[rows[row]]))
        for row, each in spans.items()
    }


class _Queue:
    """Evicted requests, in the order in which admission takes them."""

    def __init__(self, by_priority: bool, facts: Mapping[int, Mapping[str, Any]]) -> None:
        self._by_priority = by_priority
        self._facts = facts
        self._heap: list[tuple[tuple[Any, ...], int, int]] = []
        self._put = 0

    def put(self, row: int, now_ns: int) -> None:
        self._put -= 1  # the last one in is the first one out
        fact = self._facts[row]
        urgency = (fact["priority"], fact["arrival_ns"], fact["request_id"])
        heapq.heappush(self._heap, (urgency if self._by_priority else (self._put,), row, now_ns))

    def take(self, most: int) -> Iterator[tuple[int, int]]:
        for _ in range(min(most, len(self._heap))):
            _, row, evicted_ns = heapq.heappop(self._heap)
            yield row, evicted_ns

    def left(self) -> Iterable[tuple[int, int]]:
        return [(row, evicted_ns) for _, row, evicted_ns in sorted(self._heap)]

    def take_ended(self, now_ns: int) -> list[tuple[int, int]]:
        """Those that were aborted, or finished by a token still under way, resume no more."""
        ended = [each for each in self._heap if self._has_ended(each[1], now_ns)]
        if ended:
            self._heap = [each for each in self._heap if each not in ended]
            heapq.heapify(self._heap)
        return [(row, evicted_ns) for _, row, evicted_ns in ended]

    def _has_ended(self, row: int, now_ns: int) -> bool:
        finish_ns = self._facts[row]["finish_ns"]
        return finish_ns is not None and finish_ns <= now_ns


def _changes(passes: pa.Table) -> Iterator[tuple[int, int, list[int]]]:
    """Start, number of resumes and victims of the passes that have any."""
    resumed, preempted = ints(passes, "resumed"), ints(passes, "preempted")
    changed = passes.filter(pa.array((resumed > 0) | (preempted > 0)))
    columns = (changed.column(name).to_pylist() for name in ("start_ns", "resumed", "victims"))
    yield from zip(*columns, strict=True)


def _facts(requests: pa.Table) -> dict[int, dict[str, Any]]:
    names = ("row", "priority", "arrival_ns", "request_id", "first_scheduled_ns", "finish_ns")
    evicted = requests.filter(pa.array(ints(requests, "preemptions") > 0)).select(names)
    return {each["row"]: each for each in evicted.to_pylist()}


def _waits(requests: pa.Table) -> list[int]:
    names = [name for name in requests.column_names if name.startswith("wait_")]
    total = sum((ints(requests, name) for name in names), start=ints(requests, "row") * 0)
    return [int(each) for each in total]


def _adds_up(fact: Mapping[str, Any], spans: Iterable[Eviction], waited_ns: int) -> bool:
    """Whether the wait for the first admission and the evictions are all that it waited."""
    spent = int(fact["first_scheduled_ns"] or 0) - int(fact["arrival_ns"])
    for span in spans:
        if span.resumed_ns is None:
            return True  # it still waits, so its waits end with the run
        spent += span.resumed_ns - span.evicted_ns
    return spent == waited_ns
