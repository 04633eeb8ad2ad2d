"""What speculative decoding takes from a pass: drafts beside decodes, in passes that were full.

A pass is full when its budget is spent to the last token, or its input rows are. Whoever came later
got nothing then, and the drafts of the last decode may have been cut off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schedbench.results.arrays import Ints, Mask, ints, is_label, ratio, total
from schedbench.results.explain.words import counted
from schedbench.results.parts import Rows, added_up, nulls
from schedbench.results.units import number, percent

BUDGET_SPENT: Final = "budget_spent"
UNFIT: Final = ("padded_decode_unfit", BUDGET_SPENT)
_COLUMNS: Final = (
    "spec_tokens",
    "decode_tokens",
    "tokens_scheduled",
    "token_budget",
    "requests_scheduled",
    "running",
    "running_stop",
    "admission_stop",
    "duration_ns",
)


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """What the flags say about drafts: how many a decode may have, and what they cost a pass."""

    num_speculative_tokens: int
    kept_tokens: int  # of `max_num_batched_tokens`, left free for the drafter's own rows
    input_budget: int | None = None  # rows a pass may have; None: not limited apart from tokens
    draft_rows: int = 0  # of them for each scheduled request, beside its tokens


def is_told(passes: Rows) -> bool:
    """Whether the log says what ended the loops; that of vLLM's own class does not."""
    return not nulls(passes, ["running_stop"])["running_stop"]


def draft_metrics(passes: Rows, terms: DraftTerms) -> dict[str, Any]:
    """How full the passes with drafts were, what of that was drafts, and who went without.

    `empty_tokens` are drafts that a decode could have had and had not; `cut_tokens` those of them
    in full passes.
    """

    def of(part: pa.Table) -> dict[str, int]:
        drafts, decodes = ints(part, "spec_tokens"), ints(part, "decode_tokens")
        is_full = _is_full(part, terms)
        full = is_full & (drafts > 0)
        empty = np.maximum(decodes * terms.num_speculative_tokens - drafts, 0)
        left_out = ints(part, "running") - ints(part, "requests_scheduled")
        return {
            "wanted": total(decodes) * terms.num_speculative_tokens,
            "empty": total(empty),
            "cut": total(empty[is_full]),
            "full": int(full.sum()),
            "full_ns": total(ints(part, "duration_ns")[full]),
            "drafts_in_full": total(drafts[full]),
            "tokens_in_full": total(ints(part, "tokens_scheduled")[full]),
            "left_out": total(left_out[is_label(part, "running_stop", BUDGET_SPENT) & full]),
        }

    sums = added_up(passes, _COLUMNS, of)
    return {
        **{f"{name}_tokens": sums[name] for name in ("wanted", "empty", "cut")},
        "kept_tokens": terms.kept_tokens,
        "full": {"passes": sums["full"], "ns": sums["full_ns"]},
        "share_of_full": ratio(sums["drafts_in_full"], sums["tokens_in_full"]),
        "left_out": sums["left_out"],
    }


def _is_full(passes: pa.Table, terms: DraftTerms) -> Mask:
    tokens, room = ints(passes, "tokens_scheduled"), ints(passes, "token_budget")
    if terms.input_budget is not None:
        room = np.minimum(room, terms.input_budget - _rows(passes, terms))
    unfit = [is_label(passes, "admission_stop", label) for label in UNFIT]
    return np.asarray((tokens >= room) | np.any(unfit, axis=0))


def _rows(passes: pa.Table, terms: DraftTerms) -> Ints:
    """Taken by the drafter for each scheduled request, and for one more if it were to come."""
    return terms.draft_rows * (ints(passes, "requests_scheduled") + 1)


def drafts_told(summary: Mapping[str, Any]) -> str:
    """Whether drafts made the batch smaller, and by what; empty for a run without drafts."""
    found = summary.get("drafts")
    if found is None:
        return ""
    cut = "none cut off"
    if found["cut_tokens"]:
        of_wanted = percent(ratio(found["cut_tokens"], found["wanted_tokens"]))
        cut = f"{number(found['cut_tokens'])} cut off ({of_wanted})"
    if not found["full"]["passes"]:
        return f"take nothing from others: no pass with drafts was full · {cut}"
    time = percent(ratio(found["full"]["ns"], summary["busy_ns"]))
    share = percent(found["share_of_full"])
    left_out, kept = found["left_out"], found["kept_tokens"]
    parts = (
        f"take {share} of the passes that are full with them, {time} of the time",
        cut,
        f"decodes left out {counted(left_out, 'time')}" if left_out else "",
        f"{number(kept)} tokens kept for the drafter" if kept else "",
    )
    return " · ".join(part for part in parts if part)
