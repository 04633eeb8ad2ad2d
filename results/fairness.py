"""How service differs between clients, priorities, adapters and groups."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.results.arrays import Ints, ints, ratio, total
from schedbench.results.request_metrics import goodput, is_finished, latencies, request_counts

SPLITS: Final = ("priority", "client", "lora", "group")
NO_VALUE: Final = "(none)"


def jain(amounts: Sequence[float]) -> float | None:
    """Jain's fairness index, `sum(x)**2 / (n * sum(x**2))`: 1 if all are equal, 1/n if one has all.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination", DEC-TR-301,
    1984. None of nothing; 1 if all are 0.
    """
    if not amounts:
        return None
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


def split(
    requests: pa.Table,
    by: str,
    *,
    slo: Mapping[str, int] | None = None,
    warmup_ns: int = 0,
    end_ns: int = 0,
) -> dict[str, Any]:
    """Counts, latencies and tokens for each value of the column `by`, one of SPLITS.

    `end_ns`, the end of the run, is needed with `slo` only. `jain` is over the groups: of the
    tokens that they were served for each request they sent, so that a group that sends more counts
    for no more, and of their mean TTFT where they have one.
    """
    groups: dict[str, dict[str, Any]] = {}
    for name, rows in _groups(requests, by):
        served = rows.filter(pa.array(is_finished(rows)))
        groups[name] = {
            **request_counts(rows),
            **latencies(rows, warmup_ns),
            "tokens_served": total(ints(served, "prompt_tokens") + ints(served, "output_tokens")),
            "preemptions": total(ints(rows, "preemptions")),
            **({"goodput": goodput(rows, slo, warmup_ns, end_ns)} if slo else {}),
        }
    tokens = [group["tokens_served"] for group in groups.values()]
    per_request = [group["tokens_served"] / group["requests"] for group in groups.values()]
    for group in groups.values():
        group["tokens_served_share"] = ratio(group["tokens_served"], sum(tokens))
    ttfts = [group["ttft_ns"]["mean"] for group in groups.values() if group["ttft_ns"]["n"]]
    index = {"tokens_per_request": jain(per_request), "ttft_mean": jain(ttfts)}
    return {"by": by, "groups": groups, "jain": index}


def _groups(requests: pa.Table, by: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each value, values in order: one sort, however many values there are."""
    places, names = _places(requests, by)
    order = np.argsort(places, kind="stable")
    ordered = requests.take(pa.array(order))
    starts = np.searchsorted(places[order], np.arange(len(names) + 1))
    for name, start, end in zip(names, starts, starts[1:], strict=False):
        if end > start:
            yield name, ordered.slice(int(start), int(end - start))


def _places(requests: pa.Table, by: str) -> tuple[Ints, list[str]]:
    """For each row, the place of its value among the sorted values; last, those without one."""
    column = requests.column(by)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    values = sorted(pc.unique(column.drop_null()).to_pylist())
    places = pc.fill_null(pc.index_in(column, pa.array(values, column.type)), len(values))
    return np.asarray(places, dtype=np.int64), [*map(str, values), NO_VALUE]
