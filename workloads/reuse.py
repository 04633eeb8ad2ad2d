"""How much of the prompts an infinite prefix cache would hold: the ceiling for any real one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schedbench.errors import UsageError
from schedbench.workloads.arrays import integers, ragged, required
from schedbench.workloads.spread import Spread, spread
from schedbench.workloads.trace import Trace

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Tokens served from cache if nothing is ever evicted, at one scheduler block size."""

    block_size: int
    hash_block_tokens: int
    prompt_tokens: int
    hit_tokens: int
    share: float  # hit_tokens / prompt_tokens
    other_session_tokens: int | None  # of the hits, those first seen in another session
    requests_with_hit: int
    hit_tokens_per_request: Spread | None
    distinct_blocks: int
    distinct_roots: int  # different first blocks: system prompts, more or less


def ideal_reuse(trace: Trace, block_size: int = 16) -> Reuse | None:
    """Hits by vLLM's rule: whole blocks, and at most prompt - 1 tokens, since one must be computed.

    A row hits what any earlier row brought, its answers' blocks (`output_hash_ids`) included. None
    when the trace says nothing about prefixes. Each row's known ids lead its list, because an id
    has one predecessor; so counting them is finding the longest cached prefix.
    """
    if trace.hash_block_tokens is None or "hash_ids" not in trace.table.column_names:
        return None
    hash_block = trace.hash_block_tokens
    if block_size % hash_block and hash_block % block_size:
        raise UsageError(
            f"block size {block_size} and the trace's hash blocks of {hash_block} tokens: "
            "one must divide the other"
        )
    rows, codes, seen_in = _first_seen(trace)
    prompt = required(trace.table, "prompt_tokens").astype(np.int64)
    first = seen_in[codes]
    known = first < rows
    matched = _matched(rows, known, prompt, hash_block)
    hit = np.minimum(matched // block_size, (prompt - 1) // block_size)
    hit *= block_size
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    return Reuse(
        block_size=block_size,
        hash_block_tokens=hash_block,
        prompt_tokens=int(prompt.sum()),
        hit_tokens=int(hit.sum()),
        share=float(hit.sum() / prompt.sum()),
        other_session_tokens=_from_other_sessions(trace, rows[known], first[known], hit),
        requests_with_hit=int(np.count_nonzero(hit)),
        hit_tokens_per_request=spread(hit),
        distinct_blocks=int(np.count_nonzero(np.bincount(codes))) if codes.size else 0,
        distinct_roots=int(np.unique(codes[starts]).size),
    )


def shared_tokens(trace: Trace) -> Ints | None:
    """For each row, how many tokens of its prompt an earlier row brought, in whole hash blocks.

    What `ideal_reuse` starts from, before any block of the scheduler rounds it down. None when the
    trace says nothing about prefixes.
    """
    if trace.hash_block_tokens is None or "hash_ids" not in trace.table.column_names:
        return None
    rows, codes, seen_in = _first_seen(trace)
    prompt = required(trace.table, "prompt_tokens").astype(np.int64)
    return _matched(rows, seen_in[codes] < rows, prompt, trace.hash_block_tokens)


def _matched(rows: Ints, known: npt.NDArray[np.bool_], prompt: Ints, hash_block: int) -> Ints:
    blocks = np.bincount(rows[known], minlength=prompt.size)
    return np.minimum(blocks * hash_block, prompt)


def _first_seen(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """Of every prompt id its row and code; and of every code the first row that brings it."""
    rows, ids = _flat_ids(trace, "hash_ids")
    prompt_ids = ids.size
    if "output_hash_ids" in trace.table.column_names:
        answer_rows, answer_ids = _flat_ids(trace, "output_hash_ids")
        rows, ids = np.concatenate([rows, answer_rows]), np.concatenate([ids, answer_ids])
    codes = _codes(trace, rows, ids)
    seen_in = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(seen_in, codes, rows)
    return rows[:prompt_ids], codes[:prompt_ids], seen_in


def _flat_ids(trace: Trace, name: str) -> tuple[Ints, Ids]:
    offsets, items = ragged(trace.table.column(name))
    rows = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    return rows, items.to_numpy()


def _codes(trace: Trace, rows: Ints, ids: Ids) -> Ints:
    """Small numbers, equal where id, LoRA adapter and cache salt are: what vLLM's hash covers."""
    codes = _dense(ids)
    for name in ("lora", "cache_salt"):
        column = integers(trace.table, name)
        if column is not None:
            labels = np.unique(column, return_inverse=True)[1]
            codes = _dense(codes * (int(labels.max()) + 1) + labels[rows])
    return codes


def _dense(ids: Ids) -> Ints:
    """Ids as they are if they are small for their number, else renumbered by sorting."""
    if not ids.size or int(ids.max()) < 4 * ids.size + 1024:
        return ids.astype(np.int64)
    return np.unique(ids, return_inverse=True)[1]


def _from_other_sessions(trace: Trace, rows: Ints, first: Ints, hit: Ints) -> int | None:
    """Of the hit tokens, those whose block came first with another session; None without any.

    `rows` and `first`: of each known id, the row that asks for it and the row that brought it.
    """
    session = integers(trace.table, "session")
    if session is None or trace.hash_block_tokens is None:
        return None
    other = (session[first] != session[rows]) | (session[rows] < 0)
    blocks = np.bincount(rows[other], minlength=hit.size)
    return int(np.minimum(blocks * trace.hash_block_tokens, hit).sum())
