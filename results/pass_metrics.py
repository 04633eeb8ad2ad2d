"""What the pass log adds up to. `docs/metrics.md` lists every key with its formula."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.results.arrays import Ints, Mask, codes, ints, narrow, ratio, total
from schedbench.results.parts import Rows, added_up, largest_of, nulls, parts
from schedbench.results.spread import Values, spreads

CLOSED_BY_PREEMPTION: Final = "closed_by_preemption"

SUMMED: Final = (
    "tokens_scheduled",
    "prefill_tokens",
    "decode_tokens",
    "spec_tokens",
    "admitted",
    "resumed",
    "preempted",
    "preempted_by_reset",
    "preempted_tokens",
    "admissions_cancelled",
    "admissions_cancelled_fit",
    "budget_stranded",
    "prefix_query_tokens",
    "prefix_hit_tokens",
)
"""Columns of the pass log whose sum is a counter of the same name."""

LARGEST: Final = ("running", "seats_held_by_sessions", "kv_blocks_held_waiting")
BY_LABEL: Final = ("binding_limit", "admission_stop", "running_stop")

_TIME: Final = "duration_ns"
_BUDGET_COLUMNS: Final = ("tokens_scheduled", "token_budget")
_KV_COLUMNS: Final = ("kv_blocks_used", "kv_blocks_free")
_QUEUE_COLUMNS: Final = ("waiting", "skipped_waiting", *LARGEST)
_BATCH_COLUMNS: Final = ("prefill_tokens", "decode_tokens", "spec_tokens")


def pass_metrics(passes: Rows) -> dict[str, Any]:
    """Counters, and shares of passes and of time, over all passes."""
    untold = nulls(passes, [*SUMMED, "admission_stop"])
    sums = _sums(passes, [*SUMMED, _TIME])
    stops = {name: _by_label(passes, name) for name in BY_LABEL}
    closed = stops["admission_stop"].get(CLOSED_BY_PREEMPTION, {"passes": 0, "ns": 0})
    busy_ns = sums[_TIME]
    return {
        "passes": passes.num_rows,
        **{name: None if untold[name] else sums[name] for name in SUMMED},
        "prefix_hit_share": ratio(sums["prefix_hit_tokens"], sums["prefix_query_tokens"]),
        "busy_ns": busy_ns,
        "admission_closed_by_preemption": (
            dict.fromkeys(closed) if untold["admission_stop"] else closed
        ),
        "budget": _budget(passes, busy_ns),
        "kv": _kv_blocks(passes, busy_ns),
        "queues": _queues(passes, busy_ns),
        **_batches(passes),
        "drafts_per_decode": ratio(sums["spec_tokens"], sums["decode_tokens"]),
        **stops,
    }


def told_metrics(passes: Rows) -> dict[str, Any]:
    """What can be summed up of a log in which some columns are null: those of vLLM's own class."""
    untold = nulls(passes, passes.column_names)
    told = {name for name in passes.column_names if not untold[name]}
    sums = _sums(passes, [*(name for name in SUMMED if name in told), _TIME])
    busy_ns = sums.pop(_TIME)
    parts_told = (
        (_budget, _BUDGET_COLUMNS, "budget"),
        (_kv_blocks, _KV_COLUMNS, "kv"),
        (_queues, _QUEUE_COLUMNS, "queues"),
    )
    return {
        "passes": passes.num_rows,
        **sums,
        "prefix_hit_share": ratio(sums["prefix_hit_tokens"], sums["prefix_query_tokens"]),
        "busy_ns": busy_ns,
        **{key: of(passes, busy_ns) for of, needs, key in parts_told if told.issuperset(needs)},
        **(_batches(passes) if told.issuperset(_BATCH_COLUMNS) else {}),
    }


def _sums(passes: Rows, names: Sequence[str]) -> Counter[str]:
    """The sum of each column; a null adds nothing."""
    return added_up(passes, names, lambda part: {name: _sum(part.column(name)) for name in names})


def _sum(column: pa.ChunkedArray) -> int:
    if column.type.bit_width <= 32:  # noqa: PLR2004 - a sum of 64 bits is then exact
        return pc.sum(column).as_py() or 0
    return total(np.asarray(column.drop_null(), np.int64))


def _time(passes: pa.Table) -> Ints:
    return ints(passes, _TIME)


def _by_label(passes: Rows, name: str) -> dict[str, dict[str, int]]:
    """Passes and time by the label in a column, the longest time first."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for part in parts(passes, [name, _TIME]):
        places, labels = codes(part, name)
        for place, label in enumerate(labels):
            found[label].update(_kind(places == place, _time(part)))
    present = [(label, dict(sums)) for label, sums in found.items() if sums["passes"]]
    return dict(sorted(present, key=lambda each: (-each[1]["ns"], each[0])))


def _kind(chosen: Mask, duration: Ints) -> dict[str, int]:
    """How many passes were of a kind, and how long they took together."""
    return {"passes": int(chosen.sum()), "ns": total(duration[chosen])}


def _budget(passes: Rows, busy_ns: int) -> dict[str, float | int | None]:
    spent_for: Counter[int] = Counter()  # by the budget of a pass: tokens spent x ns

    def of(part: pa.Table) -> dict[str, int]:
        spent, budget, duration = *(narrow(part, name) for name in _BUDGET_COLUMNS), _time(part)
        for most in pc.unique(part.column("token_budget")).to_pylist():
            chosen = budget == most
            spent_for[most] += total(spent[chosen], duration[chosen])
        return {"spent": total(spent), "budget": total(budget)}

    sums = added_up(passes, [*_BUDGET_COLUMNS, _TIME], of)
    shares = (spent / budget for budget, spent in sorted(spent_for.items()) if budget)
    return {
        "tokens_max": max(spent_for, default=None),
        "used_share": ratio(sums["spent"], sums["budget"]),
        "used_share_of_time": ratio(sum(shares), busy_ns),
    }


def _kv_blocks(passes: Rows, busy_ns: int) -> dict[str, float | int | None]:
    def of(part: pa.Table) -> dict[str, Ints]:
        used, free = (narrow(part, name) for name in _KV_COLUMNS)
        return {"used": used, "pool": used + free}

    most = largest_of(passes, _KV_COLUMNS, of)
    mean, pool = _mean_of_time(passes, ["kv_blocks_used"], busy_ns), most["pool"]
    return {
        "blocks": pool,
        "used_share_mean": None if mean is None or not pool else mean / pool,
        "used_share_max": None if most["used"] is None or not pool else most["used"] / pool,
    }


def _queues(passes: Rows, busy_ns: int) -> dict[str, float | int | None]:
    def of(part: pa.Table) -> dict[str, Ints]:
        waiting = narrow(part, "waiting") + narrow(part, "skipped_waiting")
        return {"waiting": waiting} | {name: narrow(part, name) for name in LARGEST}

    most = largest_of(passes, _QUEUE_COLUMNS, of)
    return {
        "running_mean": _mean_of_time(passes, ["running"], busy_ns),
        "waiting_mean": _mean_of_time(passes, ["waiting", "skipped_waiting"], busy_ns),
        **{f"{name}_max": most[name] for name in ("waiting", *LARGEST)},
    }


def _mean_of_time(passes: Rows, names: Sequence[str], busy_ns: int) -> float | None:
    """The mean of the sum of some columns, each pass weighing as long as it took."""

    def of(part: pa.Table) -> dict[str, int]:
        duration = _time(part)
        return {name: total(narrow(part, name), duration) for name in names}

    return ratio(added_up(passes, [*names, _TIME], of).total(), busy_ns)


def _batches(passes: Rows) -> dict[str, Any]:
    """Passes by what was in them: only decodes, only prompts, both, or nothing.

    And how long decodes had to wait for their pass, where they were alone and where they were not.
    """

    def kinds(part: pa.Table) -> dict[str, Mask]:
        prefill, decode, spec = (narrow(part, name) > 0 for name in _BATCH_COLUMNS)
        decodes = decode | spec
        return {
            "decode": decodes & ~prefill,
            "mixed": decodes & prefill,
            "prefill": prefill & ~decodes,
            "empty": ~decodes & ~prefill,
        }

    def times(part: pa.Table) -> dict[str, Values]:
        decoding, found = ints(part, "decode_tokens"), kinds(part)
        return {
            f"{name}_pass_ns": (_time(part)[found[name]], decoding[found[name]])
            for name in ("decode", "mixed")
        }

    names = (*_BATCH_COLUMNS, _TIME)
    batch: dict[str, Counter[str]] = defaultdict(Counter)
    for part in parts(passes, names):
        for name, chosen in kinds(part).items():
            batch[name].update(_kind(chosen, _time(part)))
    return {
        "batch": {name: dict(sums) for name, sums in batch.items()},
        "mixed_share": ratio(batch["mixed"]["passes"], passes.num_rows),
        **spreads(passes, names, times),
    }
