"""Random traffic that shares prefixes, with flags at their edges: small pools, any block size.

Prompts follow a chain of hash blocks: one of a few popular prefixes (the first more often than the
second, and so on), perhaps an earlier request's whole chain (the next turn of a conversation), and
a tail of their own. Now and then the ids end before the prompt does, or go on after it.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from schedbench.sched.behaviours import RELEASES
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

HASH_BLOCK = 8
LONGEST = 160  # tokens of a sequence


@st.composite
def prefix_text(draw: st.DrawFn) -> Trace:
    """Text requests with `hash_ids`, and nothing else that the fast path would not cover."""
    rows = draw(st.integers(2, 30))
    fresh = count(1)
    popular = [[next(fresh) for _ in range(8)] for _ in range(3)]
    chains: list[list[int]] = []
    columns: dict[str, list[Any]] = {
        "arrival_ns": [
            0,
            *sorted(draw(_ints(rows - 1, 0, draw(st.sampled_from([1, 60_000_000]))))),
        ],
        "prompt_tokens": [],
        "output_tokens": draw(_ints(rows, 1, draw(st.sampled_from([3, 60])))),
        "hash_ids": [],
    }
    for _ in range(rows):
        chain, prompt = draw(_chain(popular, chains, fresh))
        chains.append(chain)
        columns["hash_ids"].append(chain)
        columns["prompt_tokens"].append(prompt)
    for row in draw(st.sets(st.integers(0, rows - 1), max_size=2)):
        columns["hash_ids"][row] = None
    caps = zip(columns["output_tokens"], draw(_ints(rows, -1, 2)), strict=True)
    columns["max_tokens"] = [None if more < 0 else output + more for output, more in caps]
    if draw(st.booleans()):
        columns["lora"] = [each or None for each in draw(_ints(rows, 0, 1))]
    if draw(st.booleans()):
        columns["priority"] = draw(_ints(rows, -1, 1))
    if draw(st.booleans()):
        before = [draw(st.integers(-3, row - 1)) for row in range(rows)]
        columns["after"] = [None if row < 0 else row for row in before]
        think = zip(columns["after"], draw(_ints(rows, 0, 9_000_000)), strict=True)
        columns["think_ns"] = [None if after is None else wait for after, wait in think]
    return Trace.from_columns(columns, hash_block_tokens=HASH_BLOCK)


@st.composite
def _chain(
    draw: st.DrawFn, popular: list[list[int]], earlier: list[list[int]], fresh: Iterator[int]
) -> tuple[list[int], int]:
    """Hash ids, and a prompt's length; whole blocks now and then, so that the last is not hit."""
    kind = draw(st.integers(0, 5))
    if kind == 0 and earlier:
        chain = list(draw(st.sampled_from(earlier)))
    else:
        shared = popular[min(kind // 2, 2)]
        chain = shared[: draw(st.integers(0, len(shared)))]
    chain = (chain + [next(fresh) for _ in range(draw(st.integers(0, 3)))])[:12]
    most = len(chain) * HASH_BLOCK
    exact = draw(st.sampled_from([0, 0, 0, -1, -3, 5]))
    return chain, min(max(most + exact, 1), 99)


def _ints(count: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=count, max_size=count)


@st.composite
def prefix_configs(draw: st.DrawFn, *, caches: bool = True) -> SchedulerConfig:
    """Flags with any block size and pools from too small for two requests to ample."""
    size, chunked = draw(st.sampled_from([1, 2, 4, 8, 16, 32, 64])), draw(st.booleans())
    whole = -(-LONGEST // size)
    return SchedulerConfig(
        vllm_version=draw(st.sampled_from(sorted(RELEASES))),
        max_num_batched_tokens=draw(st.sampled_from([33, 64, 200])) if chunked else 200,
        max_num_scheduled_tokens=draw(st.sampled_from([None, None, 32])) if chunked else None,
        max_num_seqs=draw(st.sampled_from([2, 5, 32])),
        max_model_len=draw(st.sampled_from([100, LONGEST])),
        enable_chunked_prefill=chunked,
        num_gpu_blocks=1 + draw(st.integers(max(whole - 8 // size, 2), 3 * whole + 60 // size)),
        block_size=size,
        enable_prefix_caching=caches,
        scheduler_reserve_full_isl=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1])),
        policy=draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 1, 9, 20])),
        async_scheduling=draw(st.booleans()),
    )
