"""What is known to be impossible before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedbench.errors import TraceError
from schedbench.runner.stall import tokens_ahead
from schedbench.workloads.too_long import TooLong, too_long

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.config import SchedulerConfig
    from schedbench.workloads.trace import Trace

SHOWN_ROWS = 5


def fit_prompts(trace: Trace, config: SchedulerConfig, action: TooLong) -> Trace:
    """Deal with what the context or the whole pool cannot hold: prompts, or with `drop` requests.

    Raises:
        TraceError: there are some, and the action is `error`.
    """
    trace = too_long(trace, config.max_model_len, action)
    room = config.usable_blocks * config.block_size
    if action is TooLong.DROP:
        by_itself = trace.has("max_tokens") or trace.has("chunks")
        most = room + 1 - tokens_ahead(config, ends_by_itself=by_itself)
        return too_long(trace, max(2, most), action)
    prompts = trace.column("prompt_tokens")
    assert prompts is not None
    rows = np.flatnonzero(prompts > room)
    if not len(rows):
        return trace
    if action is not TooLong.ERROR:
        return too_long(trace, room + 1, action)
    shown = ", ".join(f"{row} ({prompts[row]} tokens)" for row in rows[:SHOWN_ROWS])
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    answers = trace.column("output_tokens")
    assert answers is not None
    whole = np.minimum(prompts + np.maximum(answers - 1, 0), config.max_model_len)
    longest, others = int(whole.max()), int(((whole > room) & (prompts <= room)).sum())
    need = -(-longest // config.block_size) + 1  # with the null block
    one = len(rows) == 1
    raise TraceError(
        f"{trace.path or 'the trace'}: {'1 prompt is' if one else f'{len(rows)} prompts are'} "
        f"longer than the whole KV pool of {config.usable_blocks} usable blocks ({room} tokens): "
        f"row{'s'[: not one]} {shown}{more}. {'It' if one else 'They'} could never be scheduled. "
        f"Give --num-gpu-blocks {need} or more"
        + (
            f"; {others} more fit{'s' * (others == 1)} without the answer only, and would stall"
            if others
            else ""
        )
        + f"{';' if others else ','} or leave them {'all ' if others else ''}out with "
        "--too-long drop"
    )


def told_of_prompts(trace: Trace, prepared: Trace) -> Iterator[str]:
    """What became of prompts that did not fit, in words: what is dropped or cut is never silent."""
    before = len(trace.provenance.get("transforms", ()))
    for step in prepared.provenance.get("transforms", ())[before:]:
        if step["step"] != "too_long":
            continue
        most = step["max_model_len"]
        if rows := step.get("rows_dropped"):
            yield (
                f"{rows:,} of {trace.num_requests:,} requests dropped, which are longer than "
                f"{most:,} tokens with their output (--too-long drop): this run has none of them"
            )
        if rows := step.get("rows_cut"):
            yield (
                f"{rows:,} of {trace.num_requests:,} prompts cut to {most - 1:,} tokens, by "
                f"{step['tokens_cut']:,} in all (--too-long truncate)"
            )
