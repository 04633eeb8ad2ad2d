"""Random traces and flags over all features, small enough that rare branches are reached.

A law that vLLM 0.26.0 itself breaks is kept, and the generator leaves out, by name, what breaks it
(`BREAKS`); docs/invariants.md lists each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st

from schedbench.runner.events import Event
from schedbench.runner.run import ReplayOptions
from schedbench.sched.config import SchedulerConfig
from schedbench.workloads.trace import Trace

MS = 1_000_000
FEATURES = (
    "abort", "async", "closed_loop", "encoder", "full_isl_off", "grammar", "lora", "max_tokens",
    "model_len", "no_cache", "no_chunking", "own_budget", "pause", "pipeline", "prefix",
    "pressure", "priority", "remote_kv", "reset", "speculation", "streaming", "threshold",
    "throttle", "watermark",
)  # fmt: skip
SHORT_WAY = frozenset(FEATURES) - {
    "lora", "pipeline", "prefix", "remote_kv", "speculation", "streaming", "throttle",
}  # fmt: skip
"""Features with which a replay goes through decodes without looking at each."""


class Break(NamedTuple):
    """Features that together break a law in vLLM 0.26.0, and the one that is left out."""

    together: frozenset[str]
    left_out: str
    unless: str = ""


BREAKS: dict[str, Break] = {
    "an adapter comes back: pass in flight": Break(frozenset({"lora", "pipeline"}), "pipeline"),
    "an adapter comes back: throttled": Break(frozenset({"lora", "throttle"}), "throttle"),
    "an adapter comes back: encoder": Break(frozenset({"lora", "encoder"}), "encoder"),
    "an adapter comes back: drafts": Break(
        frozenset({"lora", "async", "speculation"}), "speculation"
    ),
    "drafts are taken back twice": Break(
        frozenset({"speculation", "pipeline"}), "pipeline", unless="async"
    ),
    "drafts reach past a turn": Break(frozenset({"streaming", "speculation"}), "speculation"),
    "a turn ends twice: third pass in flight": Break(
        frozenset({"streaming", "async", "pipeline"}), "pipeline"
    ),
    "a turn ends twice: the model ends it": Break(
        frozenset({"streaming", "async", "max_tokens"}), "max_tokens"
    ),
    "a turn ends twice: failed load": Break(
        frozenset({"streaming", "async", "remote_kv"}), "remote_kv"
    ),
    "a turn ends while evicted": Break(frozenset({"streaming", "async", "pressure"}), "pressure"),
}
HASH_BLOCKS = 2  # scheduler blocks in a hash block of the trace


@dataclass(frozen=True)
class Case:
    """One trace and one set of flags; `repr` is enough to run it again."""

    features: frozenset[str]
    flags: dict[str, Any]
    rows: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    throttle_interval: int = 1

    def trace(self) -> Trace:
        names = {name: None for row in self.rows for name in row}
        columns = {name: [row.get(name) for row in self.rows] for name in names}
        shares = "hash_ids" in names
        block = self.flags["block_size"] * HASH_BLOCKS
        return Trace.from_columns(columns, hash_block_tokens=block if shares else None)

    def config(self) -> SchedulerConfig:
        return SchedulerConfig(**self.flags)

    def replay_options(self) -> ReplayOptions:
        return ReplayOptions(events=[Event(**event) for event in self.events], **self.options)


@st.composite
def cases(draw: st.DrawFn, features: frozenset[str] = frozenset(FEATURES)) -> Case:
    chosen = set(draw(st.sets(st.sampled_from(sorted(features)), max_size=8)))
    chosen |= {name for name in ("pressure", "prefix") if name in features and draw(st.booleans())}
    for each in BREAKS.values():
        if each.together <= chosen and each.unless not in chosen:
            chosen.remove(each.left_out)
    flags = draw(_flags(chosen))
    rows = draw(_rows(chosen, flags))
    flags["num_gpu_blocks"] = 1 + _pool(rows, flags) + draw(st.integers(0, 2))
    if "pressure" not in chosen:
        flags["num_gpu_blocks"] *= 6
    events = draw(_events(chosen, len(rows)))
    options = {"arrivals": "closed", "think_ns": draw(_times())} if "closed_loop" in chosen else {}
    throttle = draw(st.integers(2, 4)) if "throttle" in chosen else 1
    return Case(frozenset(chosen), flags, rows, options, events, throttle)


def _times(most_ms: int = 12) -> st.SearchStrategy[int]:
    return st.integers(0, 4 * most_ms).map(lambda quarter: quarter * MS // 4)


def _pool(rows: list[dict[str, Any]], flags: dict[str, Any]) -> int:
    """Blocks that let every request finish alone, so that no run has to stall for one."""
    longest = max(_length(row) for row in rows) + flags.get("num_speculative_tokens", 0)
    blocks = -(-min(longest, flags["max_model_len"]) // flags["block_size"])
    return blocks + int(flags.get("watermark", 0) * 8 * blocks)


def _length(row: dict[str, Any]) -> int:
    """Tokens of prompt and output, of all turns together."""
    turns = [row, *row.get("chunks", ())]
    return sum(
        turn["prompt_tokens"] + row.get("max_tokens", row["output_tokens"]) for turn in turns
    )


@st.composite
def _flags(draw: st.DrawFn, chosen: set[str]) -> dict[str, Any]:
    length = draw(st.sampled_from([32, 48, 64]))
    flags: dict[str, Any] = {
        "block_size": draw(st.sampled_from([2, 4, 8])),
        "max_num_seqs": draw(st.integers(1, 6)),
        "max_num_batched_tokens": draw(st.sampled_from([8, 16, 24, 40])),
        "max_model_len": length,
        "async_scheduling": "async" in chosen,
        "enable_prefix_caching": "no_cache" not in chosen,
        "enable_chunked_prefill": "no_chunking" not in chosen,
        "policy": "priority" if "priority" in chosen else "fcfs",
        "scheduler_reserve_full_isl": "full_isl_off" not in chosen,
    }
    if "no_chunking" in chosen:
        flags["max_num_batched_tokens"] = length + draw(st.integers(0, 9))
    if "threshold" in chosen:
        flags["long_prefill_token_threshold"] = draw(st.integers(8, 12))
    if "watermark" in chosen:
        flags["watermark"] = draw(st.sampled_from([0.01, 0.05, 0.1]))
    if "lora" in chosen:
        flags["max_loras"] = draw(st.integers(1, 2))
    if "pipeline" in chosen:
        flags["pipeline_parallel_size"] = draw(st.integers(2, 4))
    if "speculation" in chosen:
        flags |= draw(_speculation(chosen, flags))
    if "remote_kv" in chosen:
        flags["kv_role"] = draw(st.sampled_from(["kv_producer", "kv_consumer", "kv_both"]))
        flags["kv_load_failure_policy"] = draw(st.sampled_from(["fail", "recompute"]))
    if "encoder" in chosen:
        flags["encoder_cache_size"] = draw(st.integers(6, 14))
        flags["max_num_encoder_input_tokens"] = draw(st.integers(6, 14))
        flags["disable_chunked_mm_input"] = draw(st.booleans())
    if "own_budget" in chosen and "speculation" not in chosen:
        flags["max_num_scheduled_tokens"] = draw(st.integers(8, 50))
    return flags


@st.composite
def _speculation(draw: st.DrawFn, chosen: set[str], flags: dict[str, Any]) -> dict[str, Any]:
    methods = ["eagle", "draft_model"] if "async" in chosen else ["ngram", "eagle", "draft_model"]
    method = draw(st.sampled_from(methods))
    extra = flags["max_num_seqs"] if method == "draft_model" else 0
    return {
        "num_speculative_tokens": draw(st.integers(1, 3)),
        "spec_method": method,
        "max_num_batched_tokens": flags["max_num_batched_tokens"] + extra,
    }


@st.composite
def _rows(draw: st.DrawFn, chosen: set[str], flags: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    arrival_ns = 0
    for number in range(draw(st.integers(1, 10))):
        arrival_ns += draw(_times(3)) if rows else 0
        row = {"arrival_ns": arrival_ns} | draw(_lengths(chosen, flags))
        row |= draw(_extras(chosen, flags, row, number))
        rows.append(row)
    return rows


@st.composite
def _lengths(draw: st.DrawFn, chosen: set[str], flags: dict[str, Any]) -> dict[str, Any]:
    """A prompt and an output; only with `model_len` may they exceed the context together.

    Short prompts with long outputs are what lets many in and evicts them as they grow.
    """
    length = flags["max_model_len"]
    if "streaming" in chosen:
        output = draw(st.integers(1, 4))
        left = length // 4 - output
    else:
        output = draw(st.integers(1, 20))
        left = length - output - 9  # at least 3
        if "model_len" in chosen and "speculation" not in chosen:
            left = length - 1
    longest = draw(st.sampled_from([min(6, left), left]))
    lengths = {"prompt_tokens": draw(st.integers(1, max(longest, 1))), "output_tokens": output}
    if "max_tokens" in chosen:
        lengths["max_tokens"] = output + draw(st.integers(0, 5))
    return lengths


@st.composite
def _extras(
    draw: st.DrawFn, chosen: set[str], flags: dict[str, Any], row: dict[str, Any], number: int
) -> dict[str, Any]:
    prompt = row["prompt_tokens"]
    block = flags["block_size"] * HASH_BLOCKS
    always = {
        "priority": ("priority", st.integers(0, 2)),
        "lora": ("lora", st.sampled_from([None, 1, 2, 3])),
        "prefix": ("hash_ids", _hash_ids(prompt, block, number)),
    }
    for_some = {
        "closed_loop": ("after", st.integers(0, number - 1) if number else st.none()),
        "abort": ("abort_after_ns", _times(20)),
        "grammar": ("grammar", _grammar()),
        "remote_kv": ("remote_kv", _remote_kv(prompt)),
        "encoder": ("encoder", _encoder(prompt)),
        "speculation": ("spec", _spec()),
        "streaming": ("chunks", _chunks(chosen, flags, row)),
    }
    extras = {column: draw(some) for name, (column, some) in always.items() if name in chosen}
    for name, (column, some) in for_some.items():
        if name in chosen and draw(st.booleans()):
            extras[column] = draw(some)
    return {name: value for name, value in extras.items() if value is not None}


def _grammar() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "delay_ns": _times(6),
            "ok": st.sampled_from([True, True, False]),
            "rejects_at": st.none() | st.integers(1, 5),
        }
    )


def _spec() -> st.SearchStrategy[dict[str, Any]]:
    counts = st.lists(st.integers(0, 3), min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {"rate": st.none(), "accepted": counts, "drafts": st.none() | counts}
    )


@st.composite
def _hash_ids(draw: st.DrawFn, prompt: int, block: int, number: int) -> list[int]:
    """A chain of a group of rows, then ids of the row's own."""
    count = -(-prompt // block)
    shared = draw(st.integers(0, count))
    group = 1000 * draw(st.integers(1, 2))
    own = 1_000_000 + 1000 * number
    return [group + place if place < shared else own + place for place in range(count)]


@st.composite
def _remote_kv(draw: st.DrawFn, prompt: int) -> dict[str, Any]:
    prefix = draw(st.integers(0, prompt))
    return {
        "prefix_tokens": prefix,
        "lookup_ns": draw(st.none() | _times(4)),
        "load_ns": draw(st.none() | _times(6)),
        "valid_tokens": draw(st.none() | st.integers(0, prefix)),
        "send_ns": draw(st.none() | _times(6)),
    }


@st.composite
def _encoder(draw: st.DrawFn, prompt: int) -> list[dict[str, Any]]:
    """Items that each fit the smallest cache, budget and threshold drawn."""
    items: list[dict[str, Any]] = []
    offset = 0
    for _ in range(draw(st.integers(1, 3))):
        offset += draw(st.integers(0, 4))
        tokens = draw(st.integers(1, 6))
        if offset + tokens > prompt:
            break
        which = draw(st.integers(0, 2))
        items.append({"offset": offset, "tokens": tokens, "hash": 10 * which + tokens})
        offset += tokens
    return [item | {"embeds": None} for item in items] or None


@st.composite
def _chunks(
    draw: st.DrawFn, chosen: set[str], flags: dict[str, Any], row: dict[str, Any]
) -> list[dict[str, Any]]:
    """Up to two more inputs, then perhaps the end; `max_tokens` of the first holds for all."""
    chunks: list[dict[str, Any]] = []
    delay_ns = 0
    longest = max(flags["max_model_len"] // 4 - row.get("max_tokens", row["output_tokens"]), 1)
    shortest = 1 if "max_tokens" in chosen else row["output_tokens"]
    for _ in range(draw(st.integers(0, 2))):
        delay_ns += draw(_times(10)) + 1
        chunks.append(
            {
                "delay_ns": delay_ns,
                "prompt_tokens": draw(st.integers(1, longest)),
                "output_tokens": draw(st.integers(shortest, shortest + 4)),
            }
        )
    if draw(st.booleans()):
        delay_ns += draw(_times(20)) + 1
        chunks.append({"delay_ns": delay_ns, "prompt_tokens": 0, "output_tokens": 0})
    return chunks


def _reset() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda at_ns, preempt: {"at_ns": at_ns, "op": "reset_prefix_cache", "preempt": preempt},
        _times(30),
        st.booleans(),
    )


@st.composite
def _events(draw: st.DrawFn, chosen: set[str], num_rows: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    if "pause" in chosen:
        at_ns = draw(_times(30))
        events.append(
            {"at_ns": at_ns, "op": "pause", "state": draw(st.sampled_from(["new", "all"]))}
        )
        events.append({"at_ns": at_ns + draw(_times(10)), "op": "resume"})
    if "reset" in chosen:
        events += draw(st.lists(_reset(), min_size=1, max_size=2))
    if "abort" in chosen:
        row = draw(st.integers(0, num_rows - 1))
        events.append({"at_ns": draw(_times(20)), "op": "abort", "request": row})
    return sorted(events, key=lambda event: event["at_ns"])
