"""Why nothing can be scheduled any more, where it is not for want of KV blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.sched.policy import Short, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.request import EncoderInput, Request
    from schedbench.sched.scheduler import Scheduler


def cause_of_stall(scheduler: Scheduler) -> str | None:
    """Say which encoder item or which method of a policy holds the head up for ever, if one does.

    A policy is asked once more what it answers; nothing changes by that.
    """
    return next(_oversized(scheduler), None) or next(_held_by_policy(scheduler), None)


def _oversized(scheduler: Scheduler) -> Iterator[str]:
    """Items that no pass can encode, or no cache can hold, of requests that wait for one."""
    config = scheduler.config
    for request in _stuck(scheduler):
        for item in request.encoder_inputs or ():
            if item.end <= request.num_computed_tokens:
                continue
            limits = {
                "--max-num-encoder-input-tokens": config.encoder_budget,
                "--encoder-cache-size": config.encoder_cache_embeds,
            }
            short = {name: most for name, most in limits.items() if item.num_embeds > most}
            if short:
                yield _too_large(request, item, short)
            if config.disable_chunked_mm_input and item.num_tokens > config.token_budget:
                yield (
                    f"{_name(request)} has an encoder item of {item.num_tokens} tokens, which "
                    "--disable-chunked-mm-input keeps in one pass, and a pass has "
                    f"{config.token_budget}: raise --max-num-batched-tokens or leave that out"
                )


def _too_large(request: Request, item: EncoderInput, short: dict[str, int]) -> str:
    limits = " and ".join(f"{name} is {most}" for name, most in short.items())
    remedy = " and ".join(f"{name} {item.num_embeds}" for name in short)
    return (
        f"{_name(request)} has an encoder item of {item.num_embeds} embeddings at token "
        f"{item.offset}, which is encoded in one piece, and {limits} (the batched tokens where it "
        f"is not given): give {remedy} or more"
    )


def _held_by_policy(scheduler: Scheduler) -> Iterator[str]:
    hooks, policy = getattr(scheduler, "hooks", ()), getattr(scheduler, "policy", None)
    if policy is None or not hooks:
        return
    state, who = State(scheduler), f"policy {type(policy).__name__}"
    if "pass_budget" in hooks and policy.pass_budget(state) == 0:
        yield f"{who}: pass_budget returns 0, so no pass has a token to give"
    if "chunk_tokens" in hooks:
        for request in _stuck(scheduler):
            if policy.chunk_tokens(request, _wanted(scheduler, request), state) == 0:
                yield f"{who}: chunk_tokens returns 0 for {_name(request)} in every pass"
    if "on_blocks_short" in hooks and scheduler.running:
        head = scheduler.running[0]
        short = policy.on_blocks_short(head, state, is_running=True)
        if short is not Short.PREEMPT:
            yield (
                f"{who}: on_blocks_short returns {short} for {_name(head)}, which runs, and no "
                "other request gives blocks back"
            )
    yield from _kept_waiting(scheduler, who, state)


def _kept_waiting(scheduler: Scheduler, who: str, state: State) -> Iterator[str]:
    hooks, policy = scheduler.hooks, scheduler.policy
    if not scheduler.queues:
        return
    head = scheduler.queues.head()
    if "may_admit" in hooks and not policy.may_admit(head, state):
        yield f"{who}: may_admit returns False for {_name(head)} in every pass"
    if "headroom_blocks" in hooks:
        blocks, free = policy.headroom_blocks(head, state), scheduler.kv_cache.pool.num_free
        if blocks and blocks + -(-head.num_tokens // scheduler.config.block_size) > free:
            yield (
                f"{who}: headroom_blocks returns {blocks} for {_name(head)}, more than the pool "
                f"can leave free ({free} are)"
            )


def _stuck(scheduler: Scheduler) -> Iterator[Request]:
    """Those that run, then the head of those that wait."""
    yield from scheduler.running
    if scheduler.queues:
        yield scheduler.queues.head()


def _wanted(scheduler: Scheduler, request: Request) -> int:
    left = request.num_tokens - request.num_computed_tokens
    return max(1, min(left, scheduler.config.token_budget))


def _name(request: Request) -> str:
    return f"request {request.tag.request_id if request.tag else request.request_id}"
