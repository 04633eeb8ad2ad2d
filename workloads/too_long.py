"""Requests that a model's context cannot hold, without their output or with it."""

from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.errors import TraceError, UsageError
from schedbench.workloads.arrays import Integers, ragged, required
from schedbench.workloads.lists import heads
from schedbench.workloads.rows import Mask, keep_rows, replace_column
from schedbench.workloads.trace import Trace

Step = dict[str, int | str]


class TooLong(StrEnum):
    ERROR = "error"
    DROP = "drop"
    TRUNCATE = "truncate"


def too_long(trace: Trace, max_model_len: int, action: TooLong = TooLong.ERROR) -> Trace:
    """Deal with what max_model_len tokens cannot hold; a trace without comes back as it is.

    `error` and `truncate` look at prompts, of a streaming row the first one: vLLM refuses those
    that leave no room for an output token. Outputs that pass the context end there. `drop` leaves
    out these requests as well, so that what stays gets all its output tokens.
    """
    if max_model_len < 2:  # noqa: PLR2004 - one prompt token, one output token
        raise UsageError(f"max_model_len {max_model_len} is below 2")
    prompt = required(trace.table, "prompt_tokens")
    drops = TooLong(action) is TooLong.DROP
    over = whole_lengths(trace) > max_model_len if drops else prompt >= max_model_len
    rows = int(np.count_nonzero(over))
    if not rows:
        return trace
    step: Step = {"step": "too_long", "max_model_len": max_model_len, "action": str(action)}
    match TooLong(action):
        case TooLong.DROP if rows < trace.num_requests:
            return keep_rows(trace, ~over, step)
        case TooLong.TRUNCATE:
            return _truncate(trace, over, max_model_len - 1, step)
    if drops:
        raise TraceError(
            f"{trace.path or 'trace'}: none of its {rows} requests fits in {max_model_len} tokens "
            "with its output, so that --too-long drop leaves nothing. Use a larger "
            "--max-model-len and --num-gpu-blocks."
        )
    first = int(np.argmax(over))
    raise TraceError(
        f"{trace.path or 'trace'}: row {first}, column prompt_tokens: {prompt[first]} leaves no "
        f"room for an output token in max_model_len {max_model_len} ({rows} such rows of "
        f"{trace.num_requests}). Use --too-long drop|truncate, or a larger --max-model-len."
    )


def whole_lengths(trace: Trace) -> Integers:
    """Tokens of each request when it ends, its output and a session's later inputs among them."""
    lengths: Integers = required(trace.table, "prompt_tokens").astype(np.int64)
    lengths = lengths + required(trace.table, "output_tokens")
    if not trace.has("chunks"):
        return lengths
    offsets, items = ragged(trace.table.column("chunks"))
    prompts, outputs = (
        items.field(name).to_numpy().astype(np.int64) for name in ("prompt_tokens", "output_tokens")
    )
    # An input takes the place of the last token before it; one of no tokens ends the session.
    longer = np.where(prompts > 0, prompts + outputs - 1, 0)
    rows = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    np.add.at(lengths, rows, longer)
    return lengths


def _truncate(trace: Trace, over: Mask, most: int, step: Step) -> Trace:
    """Keep each prompt's head, and of what is said about it what still holds for the head."""
    table = trace.table
    prompt = np.minimum(required(table, "prompt_tokens"), most)
    cut_tokens = int(required(table, "prompt_tokens").sum(dtype=np.int64)) - int(prompt.sum())
    table = replace_column(table, "prompt_tokens", pa.array(prompt))
    if trace.hash_block_tokens is not None:
        # Of a cut row whole blocks only: the last one is no longer the text that its id names.
        ids = prompt // trace.hash_block_tokens + ~over
        table = replace_column(table, "hash_ids", heads(table.column("hash_ids"), ids))
    if trace.has("output_hash_ids"):
        answers = table.column("output_hash_ids")
        kept = pc.if_else(pa.array(over), pa.scalar(None, answers.type), answers)
        table = replace_column(table, "output_hash_ids", kept)
    if trace.has("remote_kv"):
        table = replace_column(table, "remote_kv", _within(table.column("remote_kv"), prompt))
    table, items = _drop_encoder_items(table, prompt)
    rows = int(np.count_nonzero(over))
    counts = {"rows_cut": rows, "tokens_cut": cut_tokens, "encoder_items_dropped": items}
    return trace.with_table(table, {**step, **counts})


def _within(remote: pa.ChunkedArray, prompt: Integers) -> pa.ChunkedArray:
    """KV held elsewhere reaches no further than the prompt."""
    whole = remote.combine_chunks()
    fields = dict(zip([field.name for field in whole.type], whole.flatten(), strict=True))
    for name in ("prefix_tokens", "valid_tokens"):
        least = pc.min_element_wise(fields[name], pa.array(prompt), skip_nulls=False)
        fields[name] = least.cast(fields[name].type)
    mask = whole.is_null()
    return pa.StructArray.from_arrays(list(fields.values()), fields=list(whole.type), mask=mask)


def _drop_encoder_items(table: pa.Table, prompt: Integers) -> tuple[pa.Table, int]:
    """Items stand in order, so those that still fit inside the prompt lead each list."""
    if "encoder" not in table.column_names:
        return table, 0
    column = table.column("encoder")
    offsets, items = ragged(column)
    rows = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    fields = (items.field(name).to_numpy().astype(np.int64) for name in ("offset", "tokens"))
    fits = sum(fields) <= prompt[rows]
    kept = heads(column, np.bincount(rows[fits], minlength=table.num_rows))
    return replace_column(table, "encoder", kept), int(np.count_nonzero(~fits))
