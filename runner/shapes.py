"""A pass in the numbers that its duration depends on.

A row is one request in one pass: `q` tokens after `ctx` computed ones.

    |<------ ctx ------>|<- q ->|        keys read: ctx + q
    |                   | .     |        pairs of a chunk: q * ctx + q * (q + 1) / 2
    |                   | . .   |        (each token sees itself and all before it)

A row with q = 1 is a decode, whether it is a request's next token or the last of a prompt: the
kernels cannot tell them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedbench.sched.output import SchedulerOutput


class Row(NamedTuple):
    """One request in a pass: tokens computed in it, and before it."""

    q: int
    ctx: int


class PassShape(NamedTuple):
    """Counts over a pass. `attn_pairs` counts the chunks only; decodes are bound by `keys_read`."""

    num_seqs: int
    num_tokens: int
    num_chunks: int  # rows with q > 1
    attn_pairs: int  # over the chunks: (query, key) pairs that attention looks at
    keys_read: int  # over all rows: cached tokens that attention reads, the new ones included
    num_sampled: int  # rows whose last known token is computed; the others are prefill chunks

    @property
    def is_uniform_decode(self) -> bool:
        """Every row has one token, so that the pass can run as a captured graph."""
        return self.num_tokens > 0 and self.num_chunks == 0


def features(output: SchedulerOutput) -> PassShape:
    """The shape of a scheduled pass; its cost does not grow with the number of decodes."""
    num_seqs = output.num_seqs
    num_decodes = num_seqs - len(output.prefills)
    if output.scheduled_spec_decode_tokens:  # several tokens a decode: drafts to be verified
        return _row_by_row(output)
    chunks = pairs = prefill_tokens = 0
    sampled = num_decodes
    for request, ctx, q in output.prefills:
        prefill_tokens += q
        if q > 1:
            chunks += 1
            pairs += _pairs(q, ctx)
        if not request.is_prefill_chunk:
            sampled += 1
    tokens = output.decode_tokens + prefill_tokens
    return PassShape(num_seqs, tokens, chunks, pairs, output.context_tokens + tokens, sampled)


def _row_by_row(output: SchedulerOutput) -> PassShape:
    rows, unsampled = rows_of(output), 0
    for request, _, _ in output.prefills:
        unsampled += request.is_prefill_chunk
    return of_rows(rows, num_sampled=len(rows) - unsampled)


def rows_of(output: SchedulerOutput) -> list[Row]:
    """Every row of a pass that has been scheduled, in its order."""
    scheduled = {
        request.request_id: request
        for requests in (
            output.scheduled_running_reqs,
            output.scheduled_new_reqs,
            output.scheduled_resumed_reqs,
        )
        for request in requests
    }
    return [
        Row(q, scheduled[request_id].num_computed_tokens - q)
        for request_id, q in output.num_scheduled_tokens.items()
    ]


def of_rows(rows: Sequence[Row], num_sampled: int | None = None) -> PassShape:
    """The shape of a pass given row by row; every row is sampled unless said otherwise."""
    chunks = [row for row in rows if row.q > 1]
    tokens = sum(row.q for row in rows)
    return PassShape(
        len(rows),
        tokens,
        len(chunks),
        sum(_pairs(row.q, row.ctx) for row in chunks),
        tokens + sum(row.ctx for row in rows),
        len(rows) if num_sampled is None else num_sampled,
    )


def _pairs(q: int, ctx: int) -> int:
    return q * ctx + q * (q + 1) // 2
