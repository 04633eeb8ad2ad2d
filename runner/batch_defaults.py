"""vLLM 0.26.0's defaults for the size of a pass (`engine/arg_utils.py`, `get_batch_defaults`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

UsageContext = Literal["server", "llm"]  # `vllm serve`, or the LLM class in a script
LARGE_MEMORY_BYTES: Final = 70 * 2**30


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
) -> BatchDefaults:
    """What vLLM sets when neither flag is given.

    A card of 70 GiB or more gets large passes, unless it is an A100, where they were slower. With
    `max_model_len` known the budget is raised to hold a whole prompt when prompts are not
    chunked, and is never more than all requests at full length.
    """
    large = total_memory_bytes >= LARGE_MEMORY_BYTES and "a100" not in gpu_name.lower()
    tokens = {"server": 8192, "llm": 16384} if large else {"server": 2048, "llm": 8192}
    budget, seqs = tokens[usage], 1024 if large else 256
    size = "70 GiB or more and not an A100" if large else "below 70 GiB, or an A100"
    if max_model_len is not None:
        if not enable_chunked_prefill:
            budget = max(budget, max_model_len)
        budget = min(budget, seqs * max_model_len)
    return BatchDefaults(budget, seqs, f"{size}, {usage}")
