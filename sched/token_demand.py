"""How many tokens a request wants in this pass: pure functions, the clamps in vLLM's order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request


def of_running(request: Request, token_budget: int, config: SchedulerConfig) -> int:
    """Tokens for a running request: what is known, or sure to come, and not computed.

    The threshold comes before the budget, and the position limit last: a sequence may fill
    `max_model_len` only with the token sampled from its last position.
    """
    computed = request.num_computed_tokens
    wanted = (
        request.num_tokens + request.num_spec_tokens + request.num_output_placeholders - computed
    )
    if 0 < config.threshold < wanted:
        wanted = config.threshold
    return min(wanted, token_budget, config.max_model_len - computed - 1)


def of_waiting(num_wanted_tokens: int, token_budget: int, config: SchedulerConfig) -> int | Verdict:
    """Tokens for an admission, or the verdict that ends it.

    The threshold comes before the chunking check, so that with chunked prefill off a long
    prompt is still chunked by it.
    """
    if 0 < config.threshold < num_wanted_tokens:
        num_wanted_tokens = config.threshold
    if num_wanted_tokens > token_budget and not config.chunked_prefill:
        return Verdict.PROMPT_OVER_BUDGET
    return min(num_wanted_tokens, token_budget)
