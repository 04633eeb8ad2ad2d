"""What the pass log adds up to. `docs/metrics.md` lists every key with its formula."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.results.arrays import (
    Ints,
    Mask,
    codes,
    ints,
    is_label,
    largest,
    narrow,
    parts_of,
    ratio,
    total,
    weighted_mean,
    weighted_mean_of,
)
from schedbench.results.spread import spread

CLOSED_BY_PREEMPTION: Final = "closed_by_preemption"

SUMMED: Final = (
    "tokens_scheduled",
    "prefill_tokens",
    "decode_tokens",
    "spec_tokens",
    "admitted",
    "resumed",
    "preempted",
    "preempted_tokens",
    "admissions_cancelled",
    "admissions_cancelled_fit",
    "budget_stranded",
    "prefix_query_tokens",
    "prefix_hit_tokens",
)
"""Columns of the pass log whose sum is a counter of the same name."""

LARGEST: Final = ("running", "seats_held_by_sessions", "kv_blocks_held_waiting")
BATCH_COLUMNS: Final = ("prefill_tokens", "decode_tokens", "spec_tokens")
BY_LABEL: Final = ("binding_limit", "admission_stop", "running_stop")


def pass_metrics(passes: pa.Table) -> dict[str, Any]:
    """Counters, and shares of passes and of time, over all passes."""
    duration = ints(passes, "duration_ns")
    counters = {name: _sum(passes, name) for name in SUMMED}
    hits = ratio(*(_column_total(passes, f"prefix_{name}_tokens") for name in ("hit", "query")))
    return {
        "passes": passes.num_rows,
        **counters,
        "prefix_hit_share": hits,
        "busy_ns": total(duration),
        "admission_closed_by_preemption": _closed(passes, duration),
        "budget": _budget(passes, duration),
        "kv": _kv_blocks(passes, duration),
        "queues": _queues(passes, duration),
        **_batches(passes, duration),
        "drafts_per_decode": ratio(
            *(_column_total(passes, f"{name}_tokens") for name in ("spec", "decode"))
        ),
        **{name: _by_label(passes, name, duration) for name in BY_LABEL},
    }


def _is_told(passes: pa.Table, name: str) -> bool:
    """Whether the column is filled: vLLM's own class leaves some null."""
    return not passes.column(name).null_count


def _sum(passes: pa.Table, name: str) -> int | None:
    return _column_total(passes, name) if _is_told(passes, name) else None


def _column_total(passes: pa.Table, name: str) -> int:
    column = passes.column(name)
    if column.type.bit_width <= 32:  # noqa: PLR2004 - a sum of 64 bits is then exact
        return pc.sum(column).as_py() or 0
    return total(ints(passes, name))


def _closed(passes: pa.Table, duration: Ints) -> dict[str, int | None]:
    """Passes whose admission a preemption closed."""
    if not _is_told(passes, "admission_stop"):
        return {"passes": None, "ns": None}
    closed = is_label(passes, "admission_stop", CLOSED_BY_PREEMPTION)
    return {**_part(closed, duration)}


def told_metrics(passes: pa.Table) -> dict[str, Any]:
    """What can be summed up of a log in which some columns are null: those of vLLM's own class."""
    told = {name for name in passes.column_names if not passes.column(name).null_count}
    duration = ints(passes, "duration_ns")
    queues = ("running", "waiting", "skipped_waiting", *LARGEST)
    counters = {name: total(ints(passes, name)) for name in SUMMED if name in told}
    hits, queried = (counters.get(f"prefix_{name}_tokens", 0) for name in ("hit", "query"))
    parts = (
        (_budget, ("tokens_scheduled", "token_budget"), "budget"),
        (_kv_blocks, ("kv_blocks_used", "kv_blocks_free"), "kv"),
        (_queues, queues, "queues"),
    )
    return {
        "passes": passes.num_rows,
        **counters,
        "prefix_hit_share": ratio(hits, queried),
        "busy_ns": total(duration),
        **{key: make(passes, duration) for make, needs, key in parts if told.issuperset(needs)},
        **(_batches(passes, duration) if told.issuperset(BATCH_COLUMNS) else {}),
    }


def _part(chosen: Mask, duration: Ints) -> dict[str, int]:
    """How many passes were of a kind, and how long they took together."""
    ns = sum(total(duration[part][chosen[part]]) for part in parts_of(len(chosen)))
    return {"passes": int(chosen.sum()), "ns": ns}


def _by_label(passes: pa.Table, name: str, duration: Ints) -> dict[str, dict[str, int]]:
    """Passes and time by the label in a column, the longest time first."""
    places, labels = codes(passes, name)
    parts = {label: _part(places == place, duration) for place, label in enumerate(labels)}
    present = [(label, part) for label, part in parts.items() if part["passes"]]
    return dict(sorted(present, key=lambda each: (-each[1]["ns"], each[0])))


def _budget(passes: pa.Table, duration: Ints) -> dict[str, float | None]:
    spent, budget = narrow(passes, "tokens_scheduled"), narrow(passes, "token_budget")

    def shares(part: slice) -> npt.NDArray[np.float64]:
        whole = budget[part]
        found = np.zeros(len(whole))
        np.divide(spent[part], whole, out=found, where=whole > 0)
        return found

    return {
        "tokens_max": largest(budget),
        "used_share": ratio(total(spent), total(budget)),
        "used_share_of_time": weighted_mean_of(shares, duration),
    }


def _kv_blocks(passes: pa.Table, duration: Ints) -> dict[str, float | int | None]:
    used, free = narrow(passes, "kv_blocks_used"), narrow(passes, "kv_blocks_free")
    pool = largest(used + free)
    mean, most = weighted_mean(used, duration), largest(used)
    return {
        "blocks": pool,
        "used_share_mean": None if mean is None or not pool else mean / pool,
        "used_share_max": None if most is None or not pool else most / pool,
    }


def _queues(passes: pa.Table, duration: Ints) -> dict[str, float | int | None]:
    waiting = narrow(passes, "waiting") + narrow(passes, "skipped_waiting")
    return {
        "running_mean": weighted_mean(narrow(passes, "running"), duration),
        "waiting_mean": weighted_mean(waiting, duration),
        "waiting_max": largest(waiting),
        **{f"{name}_max": largest(narrow(passes, name)) for name in LARGEST},
    }


def _batches(passes: pa.Table, duration: Ints) -> dict[str, Any]:
    """Passes by what was in them: only decodes, only prompts, both, or nothing.

    And how long decodes had to wait for their pass, where they were alone and where they were not.
    """
    prefills = narrow(passes, "prefill_tokens") > 0
    decodes = narrow(passes, "spec_tokens") > 0
    decoding = narrow(passes, "decode_tokens")
    decodes |= decoding > 0
    kinds = {
        "decode": decodes & ~prefills,
        "mixed": decodes & prefills,
        "prefill": prefills & ~decodes,
        "empty": ~decodes & ~prefills,
    }
    return {
        "batch": {name: _part(chosen, duration) for name, chosen in kinds.items()},
        "mixed_share": ratio(int(kinds["mixed"].sum()), passes.num_rows),
        **{
            f"{name}_pass_ns": spread(duration, np.where(kinds[name], decoding, 0))
            for name in ("decode", "mixed")
        },
    }
