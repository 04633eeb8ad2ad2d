"""What the flags of a run say about drafts, for its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.results.drafts import DraftTerms

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig


def draft_terms(config: SchedulerConfig) -> DraftTerms | None:
    """None without speculative decoding."""
    if not config.num_speculative_tokens:
        return None
    return DraftTerms(
        num_speculative_tokens=config.num_speculative_tokens,
        kept_tokens=max(0, config.max_num_batched_tokens - config.token_budget),
        input_budget=config.input_budget,
        draft_rows=config.draft_rows,
    )
