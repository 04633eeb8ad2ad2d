"""The tables of a run, as data: every column with its type, unit and meaning.

`passes` and `requests` hold only what trace, flags and reported pass times determine, so equal
runs have equal rows. Real time stands apart, in `timings`. `docs/pass-log.md` is made from this.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from schedbench.results.columns import Column, blocks, label, nanoseconds, number, tokens

SCHEMA_VERSION: Final = 2
"""Of the four tables and of the manifest. A column never changes meaning, unit or type under one
version; a mistake gets a new name."""

BY_VLLM: Final = "vLLM's own class made the passes"
"""Why a column is null that this project's scheduler always fills: the class does not tell it."""

CLOCK_COLUMNS: Final = ("start_ns", "duration_ns", "end_ns")
"""What the clock alone decides; the rest of a row follows from trace and flags, given these."""

VICTIMS: Final = pa.list_(pa.field("item", pa.int64(), nullable=False))

PASS_COLUMNS: Final = (
    Column("pass", pa.int64(), "", "index of the pass, from 0"),
    nanoseconds("start_ns", "the clock at `schedule()`"),
    nanoseconds("duration_ns", "how long the pass took, as the runner reported it"),
    nanoseconds("end_ns", "the clock at `update_from_output()`, when the pass is done"),
    tokens("token_budget", "the budget at the top of the pass"),
    tokens("tokens_scheduled", "what was spent of it"),
    tokens("prefill_tokens", "of those, prompt tokens, recomputed ones included"),
    tokens("decode_tokens", "of those, one for each request that decodes"),
    tokens("spec_tokens", "of those, draft tokens to verify"),
    Column(
        "context_tokens",
        pa.int64(),
        "tokens",
        "computed before the pass, or in a pass in flight, summed over the requests scheduled",
    ),
    number("requests_scheduled", "requests that had tokens scheduled"),
    number(
        "requests_emitting", "requests that got a token; a prefill chunk that is not last gets none"
    ),
    number("running", "length of `running` after `schedule()`"),
    number("waiting", "length of `waiting` after `schedule()`"),
    number("skipped_waiting", "length of `skipped_waiting` after `schedule()`"),
    number("seats_held_by_sessions", "seats held without running, by streams that await input"),
    blocks("kv_blocks_held_waiting", "blocks held without running: paused streams, remote loads"),
    number("admitted", "requests that ran for the first time"),
    number("resumed", "requests that ran again after a preemption"),
    number("finished", "requests that finished in the second half of the pass"),
    number("finished_while_waiting", "of those, the ones that stood in a queue"),
    number("aborted", "requests aborted since the update of the pass before"),
    number("preempted", "requests preempted, in this `schedule()` and since the one before"),
    number("preempted_by_reset", "of those, by a `reset_prefix_cache` with `preempt`"),
    Column("victims", VICTIMS, "", "their trace rows, in the order of their preemptions"),
    tokens("preempted_tokens", "computed tokens thrown away with them"),
    number(
        "admissions_cancelled",
        "requests in the queues, this pass's own victims apart, when a preemption closed the "
        "admission loop; else 0",
    ),
    number(
        "admissions_cancelled_fit",
        "of those, how many the admission loop would have admitted, had it run on the state after "
        "the running loop, the victims in their places in the queue",
        BY_VLLM,
    ),
    tokens(
        "budget_stranded",
        "budget left unspent on a pass whose admission a preemption closed",
        BY_VLLM,
    ),
    label("running_stop", "the verdict that ended the running loop", BY_VLLM),
    label("admission_stop", "the verdict that ended the admission loop", BY_VLLM),
    label(
        "binding_limit",
        "what held the pass back: KV blocks if the running loop preempted, else what ended "
        "admission; if nothing did, the budget or the encoder that cut a request short",
        BY_VLLM,
    ),
    blocks("kv_blocks_used", "held after `schedule()`"),
    blocks("kv_blocks_free", "free after `schedule()`, cached ones included"),
    blocks("kv_blocks_cached", "holding a prefix that a lookup can find, after `schedule()`"),
    blocks(
        "kv_blocks_freed_preempt",
        "given back by preemptions, in this `schedule()` and since the one before",
    ),
    blocks(
        "kv_blocks_freed_finish",
        "given back by requests that ended, and by frees that waited for a pass in flight, in this "
        "update and since the one before",
    ),
    tokens(
        "prefix_query_tokens",
        "looked up in the prefix cache by first admissions; retries count once",
    ),
    tokens("prefix_hit_tokens", "of those, found"),
    Column(
        "decisions",
        pa.uint64(),
        "",
        "digest chained over the changes of all passes so far: admitted and resumed (row, tokens, "
        "computed), chunks, victims, stops; decode grants follow from these",
        BY_VLLM,
    ),
)

AT_UPDATE: Final = (
    *("duration_ns", "end_ns", "requests_emitting", "finished", "finished_while_waiting"),
    *("aborted", "kv_blocks_freed_finish"),
)
"""Columns of the pass log that the update of a pass settles; all others its `schedule()`."""

_NOT_TIMED = "the runner does not measure it"
TIMING_COLUMNS: Final = (
    Column("pass", pa.int64(), "", "index of the pass, from 0"),
    nanoseconds("scheduler_ns", "real time in `schedule()` and `update_from_output()`", _NOT_TIMED),
    nanoseconds("device_ns", "real time of the forward pass on the device", _NOT_TIMED),
    nanoseconds("host_ns", "real time of the runner on the host", _NOT_TIMED),
    label("graph", "which captured graph ran the pass", "none did"),
)

_NEVER_RAN = "it was never scheduled"
_NO_TOKEN = "it has no token yet"  # noqa: S105 (a token of text)
_UNFINISHED = "unfinished"
_NOT_IN_TRACE = "the trace has none"
_REQUEST_COLUMNS: Final = (
    Column("row", pa.int64(), "", "the request's row in the trace, from 0"),
    Column("request_id", pa.string(), "", "the trace's own label, or the row"),
    number("client", "index of the front end that sent it"),
    number("priority", "smaller is more urgent"),
    number("lora", "the adapter it needs, from 1; 0 is the base model"),
    label("group", "the trace's label for reports: model, tenant, log type", _NOT_IN_TRACE),
    Column("session", pa.int64(), "", "the conversation it belongs to", _NOT_IN_TRACE),
    tokens("prompt_tokens", "length of the prompt"),
    tokens(
        "requested_output_tokens",
        "output tokens that the trace asks for; of a streaming session, over all its inputs",
    ),
    tokens(
        "output_tokens",
        "tokens it got; fewer than requested where the context of `max_model_len` is full",
    ),
    nanoseconds("arrival_ns", "when it arrived, on the run's clock"),
    nanoseconds("first_scheduled_ns", "start of the first pass that ran it", _NEVER_RAN),
    nanoseconds("first_token_ns", "end of the pass that gave its first token", _NO_TOKEN),
    nanoseconds("finish_ns", "end of the pass that gave its last token, or the abort", _UNFINISHED),
    nanoseconds("ttft_ns", "`first_token_ns - arrival_ns`", _NO_TOKEN),
    nanoseconds(
        "tpot_ns",
        "`(finish_ns - first_token_ns) / (output_tokens - 1)`, rounded down",
        "unfinished, aborted, or it got fewer than two tokens",
    ),
    nanoseconds("itl_max_ns", "longest gap between two of its tokens", "fewer than two tokens"),
    nanoseconds("e2e_ns", "`finish_ns - arrival_ns`", "unfinished or aborted"),
    tokens("cached_tokens", "found in the prefix cache at its admission", _NEVER_RAN),
    tokens("resumed_cached_tokens", "found there when it resumed, summed over its resumes"),
    number("preemptions", "how often it was evicted"),
    Column("preempted_tokens", pa.int64(), "tokens", "computed tokens thrown away by that"),
    Column("recomputed_tokens", pa.int64(), "tokens", "of those, computed a second time"),
    label("finish_reason", "`stop`, `length`, `abort` or `error`", _UNFINISHED),
)


def request_columns(wait_labels: Sequence[str]) -> tuple[Column, ...]:
    """The requests table; the last columns say how long a request waited under each verdict."""
    meaning = "time in the queues while `{}` ended admission, or kept it aside"
    waits = (nanoseconds(f"wait_{name}_ns", meaning.format(name), BY_VLLM) for name in wait_labels)
    return (*_REQUEST_COLUMNS, *waits)


ITL_COLUMNS: Final = (
    nanoseconds("interval_ns", "a gap between two tokens of a request; each value once"),
    Column("count", pa.int64(), "", "how many gaps of the run, over all requests, had this length"),
)
