"""vLLM's defaults for the size of a pass (`engine/arg_utils.py`, `get_batch_defaults`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from schedbench.sched.behaviours import Behaviours

UsageContext = Literal["server", "llm"]  # `vllm serve`, or the LLM class in a script
LARGE_MEMORY_BYTES: Final = 70 * 2**30
LARGEST_MEMORY_BYTES: Final = 160 * 2**30
FIRST_RELEASE: Final = Behaviours()


@dataclass(frozen=True, slots=True)
class BatchDefaults:
    """Most tokens and most requests of a pass, and the rule they came from."""

    max_num_batched_tokens: int
    max_num_seqs: int
    rule: str


def batch_defaults(
    total_memory_bytes: int,
    gpu_name: str,
    usage: UsageContext = "server",
    *,
    max_model_len: int | None = None,
    enable_chunked_prefill: bool = True,
    behaviour: Behaviours = FIRST_RELEASE,
) -> BatchDefaults:
    """What vLLM sets when neither flag is given.

    A card of 70 GiB or more gets large passes, unless it is an A100, where they were slower; a
    later release has a row for 160 GiB as well, and leaves out the GB10. With `max_model_len` known
    the budget is raised to hold a whole prompt when prompts are not chunked, and is never more than
    all requests at full length.
    """
    tokens, seqs, size = _row(total_memory_bytes, gpu_name.lower(), behaviour)
    budget = tokens[usage]
    if max_model_len is not None:
        if not enable_chunked_prefill:
            budget = max(budget, max_model_len)
        budget = min(budget, seqs * max_model_len)
    return BatchDefaults(budget, seqs, f"{size}, {usage}")


def _row(
    total_memory_bytes: int, gpu_name: str, behaviour: Behaviours
) -> tuple[dict[UsageContext, int], int, str]:
    """Most tokens by usage, most requests, and for which cards."""
    if behaviour.config_big_gpu and total_memory_bytes >= LARGEST_MEMORY_BYTES:
        return {"server": 16384, "llm": 16384}, 1024, "160 GiB or more"
    is_small = total_memory_bytes < LARGE_MEMORY_BYTES or "a100" in gpu_name
    if behaviour.config_small_gb10:
        is_small = is_small or re.search(r"\bgb10\b", gpu_name) is not None
    if is_small:
        return {"server": 2048, "llm": 8192}, 256, "below 70 GiB, or an A100"
    return {"server": 8192, "llm": 16384}, 1024, "70 GiB or more and not an A100"
