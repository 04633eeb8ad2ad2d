"""Which batch sizes run as captured graphs, and how attention over long contexts is split."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_GRAPH: Final = 512
MOST_SPLITS: Final = 32
PROGRAMS_PER_SM: Final = 2


def capture_sizes(
    max_num_seqs: int, max_num_batched_tokens: int, tokens_per_decode: int = 1
) -> list[int]:
    """Batch sizes that vLLM 0.26 captures (`config/vllm.py`): 51 of them at the cap of 512.

    1, 2, 4, then every 8 below 256, then every 16; and the largest pass if it is no such step.
    """
    cap = min(max_num_seqs * tokens_per_decode * 2, LARGEST_GRAPH, max_num_batched_tokens)
    steps = [1, 2, 4, *range(8, min(cap + 1, 256), 8), *range(256, cap + 1, 16)]
    sizes = {size for size in steps if size <= cap}
    if max_num_batched_tokens <= cap:
        sizes.add(max_num_batched_tokens)
    return sorted(sizes)


def bucket_of(num_tokens: int, sizes: Sequence[int]) -> int | None:
    """The captured size a decode batch is padded to; None if it is larger than all."""
    index = bisect_left(sizes, num_tokens)
    return sizes[index] if index < len(sizes) else None


def decode_splits(batch: int, num_kv_heads: int, num_sms: int) -> int:
    """Into how many parts the keys of each sequence are cut in the decode kernel.

    Enough for two programs an SM, a power of two so that few kernels are compiled. It depends on
    the batch alone, never on lengths, so that a captured graph fits any contexts.
    """
    wanted = -(-PROGRAMS_PER_SM * num_sms // max(batch * num_kv_heads, 1))
    return min(1 << (max(wanted, 1) - 1).bit_length(), MOST_SPLITS)
