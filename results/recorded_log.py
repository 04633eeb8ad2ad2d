"""The tables of a recording: what a scheduler class wrote beside a server while it ran.

`passes` are the pass log's own columns, null where vLLM's class does not tell. A request stands in
`added` when the scheduler is given it and in `ended` when it is let go of, so that a crash loses
neither. Times are ns of the recording's clock, which starts at the arrival of its first request.
"""

from dataclasses import replace
from typing import Final

import pyarrow as pa

from schedbench.results.columns import Column, label, nanoseconds, number, tokens
from schedbench.results.pass_log import PASS_COLUMNS

NOT_TOLD: Final = (
    "admissions_cancelled_fit",
    "running_stop",
    "admission_stop",
    "binding_limit",
    "decisions",
)
"""Columns of the pass log that vLLM's class does not tell."""

SOMETIMES_TOLD: Final = ("kv_blocks_held_waiting",)
"""Told only where there is neither a connector nor a streaming session: it is 0 then."""

_NOT_TOLD_WHEN = "the class does not tell"

RECORDED_PASS_COLUMNS: Final = tuple(
    replace(column, null_when=_NOT_TOLD_WHEN)
    if column.name in (*NOT_TOLD, *SOMETIMES_TOLD)
    else column
    for column in PASS_COLUMNS
)

IDS: Final = pa.list_(pa.field("item", pa.uint64(), nullable=False))

ADDED_COLUMNS: Final = (
    Column("row", pa.int64(), "", "requests are numbered in the order in which they were added"),
    nanoseconds("added_ns", "when the scheduler was given it"),
    nanoseconds("arrival_ns", "when the front end received it"),
    tokens("prompt_tokens", "length of the prompt"),
    tokens("max_tokens", "the cap on its output"),
    number("priority", "smaller is more urgent"),
    number("client", "index of the front end that sent it"),
    number("lora", "the adapter it needs, from 1", "the base model"),
    Column("request_id", pa.string(), "", "the server's own label", "ids were not asked for"),
    Column("hash_ids", IDS, "", "one keyed id for each full block of the prompt", "no hashes"),
)

ENDED_COLUMNS: Final = (
    Column("row", pa.int64(), "", "the request's number"),
    nanoseconds("end_ns", "when the scheduler let go of it"),
    tokens("output_tokens", "tokens it got"),
    label("reason", "`stop`, `length`, `abort` or `error`"),
    nanoseconds("first_token_ns", "end of the pass that gave its first token", "it got none"),
    tokens("cached_tokens", "found in the prefix cache at its admission", "it was never scheduled"),
    Column("hash_ids", IDS, "", "keyed ids of the blocks its output completed", "no hashes"),
)
