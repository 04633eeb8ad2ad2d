"""How many tokens a request wants in this pass: pure functions, the clamps in vLLM's order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request


def of_running(request: Request, token_budget: int, config: SchedulerConfig) -> int:
    """Tokens for a running request: what is known and not computed, clamped three times.

    The threshold comes before the budget, and the position limit last: a sequence may fill
    `max_model_len` only with the token sampled from its last position.
    """
    wanted = request.num_tokens - request.num_computed_tokens
    if 0 < config.threshold < wanted:
        wanted = config.threshold
    room = config.max_model_len - request.num_computed_tokens - 1
    return min(wanted, token_budget, room)


def of_waiting(
    request: Request, num_computed_tokens: int, token_budget: int, config: SchedulerConfig
) -> int | Verdict:
    """Tokens for an admission, or the verdict that ends it.

    The threshold comes before the chunking check, so that with chunked prefill off a long
    prompt is still chunked by it.
    """
    wanted = request.num_tokens - num_computed_tokens
    if 0 < config.threshold < wanted:
        wanted = config.threshold
    if wanted > token_budget and not config.chunked_prefill:
        return Verdict.PROMPT_OVER_BUDGET
    return min(wanted, token_budget)
