"""Where vLLM's own class ends its engine: an assertion of it fails, or it raises.

A replay ends there as the engine does, in the same half of the same pass, for what the class would
decide after it nothing can say. Each ending has a name here; `runner/vllm_endings.py` knows it by
what the class raises, so that both are compared.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from schedbench.errors import EngineEndsError

if TYPE_CHECKING:
    from schedbench.sched.config import SchedulerConfig


class Ending(StrEnum):
    """The name of an ending; `WHY` says what it is and what avoids it."""

    LORA_SLOTS = "lora-slots"
    RESET_FAILED = "reset-failed"
    EMPTY_ADMISSION = "empty-admission"
    NEGATIVE_GRANT = "negative-grant"
    NEGATIVE_COMPUTED = "negative-computed"
    NEGATIVE_PLACEHOLDERS = "negative-placeholders"
    CUT_PADDING = "cut-padding"
    QUEUED_TWICE = "queued-twice"
    HIT_BESIDE_BLOCKS = "hit-beside-blocks"
    TRANSFER_UNKNOWN = "transfer-unknown"
    INPUT_BEHIND = "input-behind"


WHY: dict[str, str] = {
    Ending.LORA_SLOTS: (
        "requests of more LoRA adapters than --max-loras are scheduled in one pass, for one was "
        "admitted while a request of another was stepped over; raise --max-loras"
    ),
    Ending.RESET_FAILED: (
        "a reset of the prefix cache with preemption found blocks that are still held, by a "
        "session between two inputs, a load, or a request whose blocks are being sent; reset "
        "without `preempt`, or at another time"
    ),
    Ending.EMPTY_ADMISSION: (
        "a waiting request has no token left to compute when it is admitted, which its scheduler "
        "asserts not to happen; a later release may go on (--vllm-version)"
    ),
    Ending.NEGATIVE_GRANT: (
        "a request is scheduled with fewer than 0 tokens, for more was counted as computed than is "
        "known: drafts that were rejected while in flight, or a sequence as long as "
        "--max-model-len; a later release may go on (--vllm-version)"
    ),
    Ending.NEGATIVE_COMPUTED: (
        "fewer than 0 tokens of a request are counted as computed, so that the next pass would "
        "begin before its prompt: a decode padded with drafts was cut, and more drafts were "
        "rejected than it had tokens; raise --long-prefill-token-threshold to 1 + "
        "--num-speculative-tokens"
    ),
    Ending.NEGATIVE_PLACEHOLDERS: (
        "a request got more tokens from passes in flight than it was counted to get; take "
        "--no-async-scheduling"
    ),
    Ending.CUT_PADDING: (
        "a decode that was padded with drafts is cut, by the threshold or an encoder item, which "
        "its scheduler asserts not to happen; raise --long-prefill-token-threshold to 1 + "
        "--num-speculative-tokens"
    ),
    Ending.QUEUED_TWICE: (
        "a session that runs, or has ended, is admitted once more, for output in flight ended its "
        "turn a second time and it was queued twice; take --no-async-scheduling, or a later "
        "release (--vllm-version)"
    ),
    Ending.HIT_BESIDE_BLOCKS: (
        "a waiting request that holds blocks and has nothing computed finds others in the prefix "
        "cache; take --no-enable-prefix-caching, or a later release (--vllm-version)"
    ),
    Ending.TRANSFER_UNKNOWN: (
        "a load or a send is reported of a request that is gone already; let loads and sends of "
        "one request not overlap"
    ),
    Ending.INPUT_BEHIND: (
        "a session's next input begins before what is counted as computed, which its scheduler "
        "asserts not to happen; leave out speculative decoding or the session's inputs"
    ),
}
"""By ending: what happened, and what to do about it."""


def ends(ending: Ending, config: SchedulerConfig) -> EngineEndsError:
    """The error with which the engine of the configured release ends."""
    return ends_release(ending, config.vllm_version)


def ends_release(ending: Ending, release: str) -> EngineEndsError:
    return EngineEndsError(f"vLLM {release} ends its engine here: {WHY[ending]}", ending)
