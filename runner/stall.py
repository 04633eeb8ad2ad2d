"""Knowing that a replay will never end, and saying why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedbench.runner.stall_causes import cause_of_stall
from schedbench.runner.stall_pause import is_held_by_pause, paused_message

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig
    from schedbench.sched.output import EngineCoreOutputs, SchedulerOutput
    from schedbench.sched.request import Request
    from schedbench.sched.scheduler import Scheduler

REPEATS = 4  # how often everything known may be computed without a single token coming out


class ProgressWatch:
    """Sees a livelock: passes that compute, evict and compute again, and never emit a token.

    All tokens known at one time can be computed in as many scheduled tokens; when several times
    that was scheduled since the last emission, evictions are throwing it all away.
    """

    def __init__(self) -> None:
        self._since_emission = 0
        self._check_at = 1

    def emitted(self) -> None:
        """Note a pass that brought tokens."""
        self._since_emission, self._check_at = 0, 1

    def what_was_known_is_gone(self) -> None:
        """Note an abort: what was computed for it is no sign of a livelock."""
        self.emitted()

    def is_stuck(
        self, scheduler: Scheduler, output: SchedulerOutput, outputs: EngineCoreOutputs
    ) -> bool:
        if outputs.emitted or outputs.finished or not scheduler.requests:
            self.emitted()
            return False
        self._since_emission += sum(grant.num_new_tokens for grant in output.prefills)
        if self._since_emission < self._check_at:
            return False
        known = sum(request.num_tokens for request in scheduler.requests.values())
        self._check_at = REPEATS * known
        return self._since_emission >= self._check_at


def stall_message(scheduler: Scheduler) -> str:
    """Name the request that is stuck, what it lacks and the flag that helps.

    That is blocks, unless the engine is paused, or an encoder item or a policy holds up a head that
    they would suffice for.
    """
    if is_held_by_pause(scheduler):
        return paused_message(scheduler)
    head = _head(scheduler)
    if head is None:
        return "the engine is paused with requests waiting, and no event resumes it"
    config = scheduler.config
    need = _blocks(head.num_tokens, config)
    if need <= config.usable_blocks and (cause := cause_of_stall(scheduler)):
        return f"stalled: no request can be scheduled any more. {cause}"
    if need <= config.usable_blocks == scheduler.kv_cache.pool.num_free:
        ahead = tokens_ahead(config, ends_by_itself=head.eos_after is not None)
        need = _blocks(head.num_tokens + ahead, config)
    watermark = config.watermark_blocks if scheduler.running else 0
    who = f"request {head.tag.request_id if head.tag else head.request_id}"
    tokens = f"{head.num_tokens} tokens ({head.num_prompt_tokens} of them prompt)"
    text = (
        f"stalled: no request can be scheduled any more. {who} is at the head with {tokens}; it "
        f"needs {need} KV blocks{f' and {watermark} of headroom' if watermark else ''}, and the "
        f"pool has {config.usable_blocks} usable, {scheduler.kv_cache.pool.num_free} of them free"
    )
    most = max(blocks_to_the_end(request, config) for request in scheduler.requests.values())
    return f"{text}. {_remedy(need + watermark, most + watermark, scheduler)}"


def blocks_to_the_end(request: Request, config: SchedulerConfig) -> int:
    """Blocks that hold all a request will ever have computed: its last token is not."""
    answer = request.max_tokens
    if request.eos_after is not None:
        answer = min(answer, request.eos_after)
    known = max(request.num_tokens, request.output_start + answer - 1)
    known += tokens_ahead(config, ends_by_itself=request.eos_after is not None)
    return _blocks(known, config)


def _blocks(num_tokens: int, config: SchedulerConfig) -> int:
    return -(-min(num_tokens, config.max_model_len) // config.block_size)


def tokens_ahead(config: SchedulerConfig, *, ends_by_itself: bool) -> int:
    """The most tokens that blocks are taken for behind all that a request will have computed.

    Those are drafts, and passes scheduled before it is known that the model ended the request.
    """
    drafts = config.num_speculative_tokens
    ahead = config.passes_in_flight - 1 if config.runs_ahead and (drafts or ends_by_itself) else 0
    return (1 + drafts) * ahead + drafts + config.lookahead_tokens


def _head(scheduler: Scheduler) -> Request | None:
    if scheduler.queues:
        return scheduler.queues.head()
    return scheduler.running[0] if scheduler.running else None


def _remedy(need: int, most: int, scheduler: Scheduler) -> str:
    config = scheduler.config
    if need > config.usable_blocks:
        return (
            f"Give --num-gpu-blocks {most + 1} or more (one is the null block), or leave "
            "out what the pool cannot hold with its output: --too-long drop"
        )
    if config.token_budget == 0:
        return "The token budget is 0: give --max-num-scheduled-tokens a larger value"
    return "Blocks are held by requests that cannot go on: give more --num-gpu-blocks"
