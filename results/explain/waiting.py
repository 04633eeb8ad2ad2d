"""Who waited, for what, and who was served instead."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, codes, ints, ratio, total, weighted_mean
from schedbench.results.explain.holds import Holds, Pair, own_holds
from schedbench.results.fairness import split

WAIT, NS = "wait_", "_ns"
STARVED: Final = 2.0
"""So many times the mean wait of all requests, and a group counts as starved."""


@dataclass(slots=True)
class Inversion:
    """An urgent request stood in the queues while a less urgent one held a seat."""

    row: int
    name: str
    priority: int
    holder: str
    holder_priority: int
    first_pass: int
    passes: int = 0
    ns: int = 0
    verdicts: Counter[Pair] = field(default_factory=Counter)  # passes by the two facts


@dataclass(slots=True)
class Skips:
    """How often requests of one adapter were set aside because all adapters were in use."""

    passes: int = 0
    longest_streak: int = 0
    streak: int = 0  # that goes on
    last_pass: int = -2


@dataclass(frozen=True, slots=True)
class Held:
    """One reason to wait: passes and time in which it ended admission with somebody waiting."""

    verdict: str
    passes: int
    ns: int
    kv_used_share: float | None  # mean over those passes
    requests: int  # that waited under it
    waited_ns: int  # all of them together
    longest_ns: int


@dataclass(frozen=True, slots=True)
class LongWait:
    """One of those that waited longest; `served` is false if it never ran.

    `verdict` is what ended admission or set it aside for longest, `hold` what would have held it
    for longest if it had stood first.
    """

    row: int
    name: str
    waited_ns: int
    verdict: str
    verdict_ns: int
    hold: str
    hold_ns: int
    served: bool


@dataclass(frozen=True, slots=True)
class Group:
    """How long the requests of one client, adapter, priority or group waited on average.

    `pair`: the two facts under which they waited longest together, and `pair_ns` how long.
    """

    by: str
    name: str
    requests: int
    unfinished: int
    mean_ns: int
    worst_ns: int
    times_the_mean: float | None
    pair: Pair | None = None
    pair_ns: int = 0
    waited_ns: int = 0
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The whole answer. `held_seats`: request-passes in a seat without a token, by verdict."""

    held: tuple[Held, ...]
    holds: Holds
    names: Mapping[int, str]
    longest: tuple[LongWait, ...]
    groups: tuple[Group, ...]
    jain: Mapping[str, Mapping[str, float | None]]
    requests: int
    waited_ns: int
    policy: str
    inversions: tuple[Inversion, ...] = ()
    held_seats: Counter[str] = field(default_factory=Counter)
    running_passes: int = 0  # request-passes in a seat, with or without a token
    busy_passes: int = 0  # passes with anybody in a seat
    skips: Mapping[int, Skips] = field(default_factory=dict)

    @property
    def starved(self) -> list[Group]:
        return [
            each
            for each in self.groups
            if each.times_the_mean is not None and each.times_the_mean >= STARVED
        ]


def waits_of(requests: pa.Table) -> dict[str, Ints]:
    """By verdict, how long each request waited under it, ns."""
    names = [name for name in requests.column_names if name.startswith(WAIT)]
    return {name.removeprefix(WAIT).removesuffix(NS): ints(requests, name) for name in names}


def total_waits(requests: pa.Table) -> Ints:
    waits = list(waits_of(requests).values())
    return np.sum(waits, axis=0) if waits else np.zeros(requests.num_rows, dtype=np.int64)


def held_by(passes: pa.Table, requests: pa.Table) -> tuple[Held, ...]:
    """What kept requests in the queues; the longest time first."""
    waiting = ints(passes, "waiting") + ints(passes, "skipped_waiting") > 0
    places, labels = codes(passes, "admission_stop")
    duration, used = ints(passes, "duration_ns"), ints(passes, "kv_blocks_used")
    blocks = used + ints(passes, "kv_blocks_free")
    found = []
    for verdict, waited in waits_of(requests).items():
        chosen = waiting & (places == (labels.index(verdict) if verdict in labels else -2))
        if not waited.any():
            continue
        share = np.divide(used, blocks, out=np.zeros(len(used)), where=blocks > 0)
        found.append(
            Held(
                verdict=verdict,
                passes=int(chosen.sum()),
                ns=total(duration[chosen]),
                kv_used_share=weighted_mean(share[chosen], duration[chosen]),
                requests=int((waited > 0).sum()),
                waited_ns=total(waited),
                longest_ns=int(waited.max()),
            )
        )
    return tuple(sorted(found, key=lambda each: -each.waited_ns))


def longest_waits(
    requests: pa.Table, names: Mapping[int, str], holds: Holds | None = None, top: int = 5
) -> list[LongWait]:
    """Those that waited longest in all, and under which of both facts for longest."""
    waits, totals = waits_of(requests), total_waits(requests)
    rows = ints(requests, "row")
    first_run = requests.column("first_scheduled_ns").to_pylist()
    order = np.lexsort((rows, -totals))[:top]
    found = []
    for place in order:
        verdict = max(waits, key=lambda name: waits[name][place])
        row = int(rows[place])
        own = own_holds(holds.total([row])) if holds is not None else Counter[str]()
        hold, hold_ns = own.most_common(1)[0] if own else (verdict, int(waits[verdict][place]))
        if totals[place]:
            found.append(
                LongWait(
                    row,
                    names.get(row, str(row)),
                    int(totals[place]),
                    verdict,
                    int(waits[verdict][place]),
                    hold,
                    hold_ns,
                    first_run[place] is not None,
                )
            )
    return found


def groups_of(requests: pa.Table, holds: Holds) -> Iterator[Group]:
    """The mean wait of each client, adapter, priority and group, where there are several."""
    totals = total_waits(requests)
    mean = ratio(total(totals), requests.num_rows)
    rows = ints(requests, "row")
    for by in ("client", "lora", "priority", "group"):
        column = requests.column(by)
        values = column.cast(pa.string()).to_pylist()
        names = sorted({value for value in values if value is not None})
        if len(names) < 2:  # noqa: PLR2004 (one group has nobody to be held against)
            continue
        labels = np.array([value if value is not None else "" for value in values])
        unfinished = np.asarray(requests.column("finish_reason").is_null())
        for name in names:
            chosen = labels == name
            count = int(chosen.sum())
            own = total(totals[chosen]) // count
            times = own / mean if mean else None
            worst = int(totals[chosen].max())
            own_rows = tuple(rows[chosen].tolist())
            pairs = holds.total(own_rows)
            pair, pair_ns = pairs.most_common(1)[0] if pairs else (None, 0)
            yield Group(
                by,
                name,
                count,
                int(unfinished[chosen].sum()),
                own,
                worst,
                times,
                pair,
                pair_ns,
                total(totals[chosen]),
                own_rows,
            )


def jain_indices(requests: pa.Table) -> dict[str, dict[str, Any]]:
    """Jain's index over clients, adapters and groups, where there are several."""
    found = {}
    for by in ("client", "lora", "group"):
        parts = split(requests, by)
        if len(parts["groups"]) > 1:
            found[by] = parts["jain"]
    return found
