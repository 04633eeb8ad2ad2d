"""How many tokens a request wants in this pass: numbers in, numbers out, the clamps in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.verdicts import Verdict

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.request import Request
    from schedbench.sched.schedule_pass import SchedulePass


def threshold_of_pass(config: SchedulerConfig, num_requests: int) -> int:
    """Cap on one request's tokens in a pass that begins with so many requests; 0 means none.

    It keeps a long prompt from starving others, so that where there are none it need not cut.
    """
    threshold, behaviour = config.threshold, config.behaviour
    if num_requests <= 1 and behaviour.threshold_lone:
        return 0
    if threshold and behaviour.threshold_adaptive and config.long_prefill_token_threshold_adaptive:
        return max(threshold, config.max_num_batched_tokens // max(num_requests, 1))
    return threshold


def of_running(request: Request, this_pass: SchedulePass, config: SchedulerConfig) -> int:
    """Tokens for a running request: what is known, or sure to come, and not computed.

    The threshold comes before the budget, and the position limit last: a sequence may fill
    `max_model_len` only with the token sampled from its last position.
    """
    computed = request.num_computed_tokens
    wanted = (
        request.num_tokens + request.num_spec_tokens + request.num_output_placeholders - computed
    )
    if 0 < this_pass.threshold < wanted:
        wanted = this_pass.threshold
    return min(wanted, this_pass.token_budget, config.max_model_len - computed - 1)


def of_waiting(
    num_wanted_tokens: int, this_pass: SchedulePass, config: SchedulerConfig
) -> int | Verdict:
    """Tokens for an admission, or the verdict that ends it.

    The threshold comes before the chunking check, so that with chunked prefill off a long
    prompt is still chunked by it.
    """
    if 0 < this_pass.threshold < num_wanted_tokens:
        num_wanted_tokens = this_pass.threshold
    if num_wanted_tokens > this_pass.token_budget and not config.chunked_prefill:
        return Verdict.PROMPT_OVER_BUDGET
    return min(num_wanted_tokens, this_pass.token_budget)


def off_the_end(request: Request, num_computed_tokens: int, num_new_tokens: int, reach: int) -> int:
    """Cut a chunk that would end within the reach of several MTP modules of the known tokens' end.

    They read `reach` known tokens past a chunk; fewer, and they would fill up with guesses.

        |<-- computed -->|<-- new -->|<-- left: none, or at least `reach` -->|
    """
    left = request.num_tokens - num_computed_tokens - num_new_tokens
    if 0 < left < reach:
        num_new_tokens -= reach - left
    return max(num_new_tokens, 0)
