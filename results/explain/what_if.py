"""Replays with a flag changed, held against the run as it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import ints, is_known
from schedbench.results.explain.waiting import NS, WAIT, total_waits, waits_of
from schedbench.results.winners import WinnersAndLosers, winners_and_losers


@dataclass(frozen=True, slots=True)
class Tried:
    """One replay: what was changed, its summary and requests, or why there are none."""

    changes: Mapping[str, Any]
    summary: Mapping[str, Any] | None = None
    requests: pa.Table | None = None
    failure: str = ""
    takes: str = ""  # what it takes beside, where the GPU has no room for it

    def of_row(self, row: int) -> dict[str, Any]:
        """A request's row of the requests table; empty if it has none."""
        if self.requests is None:
            return {}
        place = self.requests.column("row").to_pylist()
        found: dict[str, Any] = self.requests.slice(place.index(row), 1).to_pylist()[0]
        return found

    def queue_ns(self, row: int) -> int | None:
        """How long a request waited before it ran for the first time; None if it never did."""
        found = self.of_row(row)
        started = found.get("first_scheduled_ns")
        return None if started is None else int(started - found["arrival_ns"])

    def waited_ns(self, row: int) -> int | None:
        """How long it waited in all, after an eviction or for a later turn too; None likewise.

        Not for input that had not come: a session that is served sooner waits longer for that.
        """
        if self.queue_ns(row) is None:
            return None
        waits = {name: ns for name, ns in self.of_row(row).items() if name.startswith(WAIT)}
        return sum(int(ns) for ns in waits.values()) - self.awaiting_input_ns(row)

    def mean_wait_ns(self, rows: Sequence[int] | None = None) -> int | None:
        """The mean over all requests or some, but for input that had not come."""
        if self.requests is None or not self.requests.num_rows:
            return None
        waits = total_waits(self.requests) - waits_of(self.requests).get("awaiting_input", 0)
        if rows is not None:
            waits = waits[np.isin(ints(self.requests, "row"), rows)]
        return int(waits.sum()) // len(waits) if len(waits) else None

    def awaiting_input_ns(self, row: int) -> int:
        """How long a session had no next input."""
        return int(self.of_row(row).get(f"{WAIT}awaiting_input{NS}") or 0)


@dataclass(frozen=True, slots=True)
class WhatIfs:
    """`base` is the run as it was; `tried` are the replays with something changed, in order.

    `times`: where pass times come from, if not from the run's own `--cost`.
    """

    base: Tried
    tried: tuple[Tried, ...]
    times: str = ""

    def shortening(self, row: int) -> list[Tried]:
        """The trials in which a request runs sooner or waits less in all, the least wait first."""
        before = self.base.queue_ns(row), self.base.waited_ns(row)
        shorter = []
        for each in self.tried:
            now = each.queue_ns(row), each.waited_ns(row)
            if any(
                ns is not None and (was is None or ns < was)
                for ns, was in zip(now, before, strict=True)
            ):
                shorter.append((now[1] or 0, now[0] or 0, each))
        return [each for *_, each in sorted(shorter, key=lambda found: found[:2])]

    def of_use(self) -> list[Tried]:
        """The trials in which requests wait less in all; where the run stalled, those that end."""
        was = self.base.mean_wait_ns()
        ended = [each for each in self.tried if each.summary is not None]
        if self.base.failure or was is None:
            return ended
        waits = [(each, each.mean_wait_ns()) for each in ended]
        return [each for each, now in waits if now is not None and now < was]

    def others(self, tried: Tried, row: int) -> WinnersAndLosers | None:
        """What a trial does to the TTFT of everyone but one request; None where the run stalled."""
        if self.base.requests is None or tried.requests is None:
            return None
        first, other = (_without(each, row) for each in (self.base.requests, tried.requests))
        return winners_and_losers(first, other, "ttft_ns")


def _without(requests: pa.Table, row: int) -> pa.Table:
    served = is_known(requests, "ttft_ns")
    kept = served & (requests.column("row").to_numpy() != row)
    return requests.filter(pa.array(kept))


def as_data(what_ifs: WhatIfs, keys: Sequence[str]) -> list[dict[str, Any]]:
    """For JSON: every replay with its changes and some numbers of its summary."""
    return [
        {
            "changes": dict(each.changes),
            "failure": each.failure or None,
            "takes": each.takes or None,
            "summary": None if each.summary is None else {key: each.summary[key] for key in keys},
        }
        for each in (what_ifs.base, *what_ifs.tried)
    ]
