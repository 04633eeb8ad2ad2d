"""Trace rows become the scheduler's requests."""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schedbench.sched.prefix_identity import PrefixNames
from schedbench.sched.request import EncoderInput, Grammar, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from schedbench.sched.prefix_identity import BlockNames
    from schedbench.workloads.trace import Trace

CHUNK_ROWS = 4096


class Row:
    """One request's life as the replay follows it: the trace's facts, then the times.

    Times are ns of the simulated clock, None until they happen. It travels as `Request.tag`. What
    a class attribute says holds until an instance says otherwise, so that a request without
    peculiarities costs little.
    """

    priority: int = 0
    client: int = 0
    lora: int = 0
    group: str | None = None
    session: int | None = None
    abort_after_ns: int | None = None
    after: int | None = None
    think_ns: int | None = None
    chunks: Sequence[dict[str, Any]] | None = None  # nested columns, as the trace has them
    grammar: dict[str, Any] | None = None
    remote_kv: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    hash_ids: Sequence[int] | None = None  # prefix identity, kept where it is asked for
    output_hash_ids: Sequence[int] | None = None
    cache_salt: int | None = None

    queue_marks: Sequence[int] = ()
    waited_ns: Sequence[int] = ()
    first_scheduled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int = 0
    last_pass: int = -1
    finish_ns: int | None = None
    finish_reason: str | None = None
    itl_max_ns: int | None = None
    emitted_tokens: int = 0
    cached_tokens: int | None = None
    resumed_cached_tokens: int = 0
    preemptions: int = 0
    preempted_tokens: int = 0
    verifications: int = 0
    proposals: int = 0

    def __init__(
        self,
        row: int,
        request_id: str,
        *,
        arrival_ns: int,
        added_ns: int,
        prompt_tokens: int,
        output_tokens: int,
        max_tokens: int,
    ) -> None:
        self.row = row
        self.request_id = request_id
        self.arrival_ns = arrival_ns
        self.added_ns = added_ns
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.max_tokens = max_tokens

    @property
    def requested_output_tokens(self) -> int:
        """What the trace asks for; of a session, over all its inputs."""
        later: int = sum(
            chunk["output_tokens"] for chunk in self.chunks or () if chunk["prompt_tokens"]
        )
        return self.output_tokens + later


KEPT_AS_THEY_ARE = (
    "priority",
    "client",
    "lora",
    "group",
    "session",
    "abort_after_ns",
    "after",
    "think_ns",
    "chunks",
    "grammar",
    "remote_kv",
    "spec",
)


PREFIX_IDENTITY = ("hash_ids", "output_hash_ids", "cache_salt")


class RequestSource:
    """Makes requests of a trace's rows, in file order, a chunk of rows at a time."""

    def __init__(
        self,
        trace: Trace,
        *,
        block_size: int,
        enable_prefix_caching: bool,
        keep_ids: bool = False,
        hash_lookahead_tokens: int = 0,
    ) -> None:
        self._trace = trace
        self.shares = enable_prefix_caching and trace.has("hash_ids")
        kept = KEPT_AS_THEY_ARE + (PREFIX_IDENTITY if keep_ids else ())
        self._kept = [name for name in kept if trace.has(name)]
        hash_block_tokens = trace.hash_block_tokens if self.shares else None
        self.names = PrefixNames(block_size, hash_block_tokens, hash_lookahead_tokens)

    def __iter__(self) -> Iterator[tuple[Row, Request]]:
        return self.starting_at(0)

    def starting_at(self, row: int) -> Iterator[tuple[Row, Request]]:
        """Those from a row on."""
        table = self._trace.table
        for start in range(row, self._trace.num_requests, CHUNK_ROWS):
            yield from self._chunk(count(start), table.slice(start, CHUNK_ROWS))

    def of_rows(self, rows: Sequence[int]) -> Iterator[tuple[Row, Request]]:
        """Those of some rows, in the order of these."""
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[start : start + CHUNK_ROWS]
            yield from self._chunk(chunk, self._trace.table.take(pa.array(chunk, pa.int64())))

    def _chunk(self, rows: Iterable[int], table: pa.Table) -> Iterator[tuple[Row, Request]]:
        columns = table.to_pydict()
        names = list(columns)
        for index, values in zip(rows, zip(*columns.values(), strict=True), strict=False):
            yield self._make(index, dict(zip(names, values, strict=True)))

    def _make(self, index: int, facts: dict[str, Any]) -> tuple[Row, Request]:
        get = facts.get
        arrival_ns, output_tokens = facts["arrival_ns"], facts["output_tokens"]
        added_ns, max_tokens = get("added_ns"), get("max_tokens") or output_tokens
        row = Row(
            index,
            get("request_id") or str(index),
            arrival_ns=arrival_ns,
            added_ns=arrival_ns if added_ns is None else added_ns,
            prompt_tokens=facts["prompt_tokens"],
            output_tokens=output_tokens,
            max_tokens=max_tokens,
        )
        for name in self._kept:
            if (value := facts[name]) is not None:
                setattr(row, name, value)
        request = Request(
            f"{index:09d}",  # vLLM breaks priority ties by comparing ids as strings
            num_prompt_tokens=row.prompt_tokens,
            max_tokens=max_tokens,
            eos_after=eos_after(output_tokens, max_tokens),
            arrival_time=arrival_ns,
            identity=self._identity(facts),
            tag=row,
        )
        if self._kept:
            request.priority, request.client_index = row.priority, row.client
            request.lora_id, request.resumable = row.lora, row.chunks is not None
        if "encoder" in facts:
            request.encoder_inputs = _encoder_inputs(facts["encoder"])
        if row.grammar is not None:
            request.set_grammar(_grammar(row.grammar))
        return row, request

    def identities(self, table: pa.Table) -> Iterator[BlockNames | None]:
        """Names of the blocks of a trace's rows, None for a row that shares nothing."""
        ids = table["hash_ids"].combine_chunks()
        bounds, flat = ids.offsets.to_pylist(), ids.values.to_pylist()
        spaces = [
            table[name].to_pylist() if name in table.column_names else repeat(None)
            for name in ("lora", "cache_salt")
        ]
        prompts, known = table["prompt_tokens"].to_pylist(), ids.is_valid().to_pylist()
        for first, end, prompt, has_ids, *space in zip(
            bounds, bounds[1:], prompts, known, *spaces, strict=False
        ):
            shared = (prompt, flat[first:end], (), tuple(space))
            yield self.names.shared(*shared) if has_ids else None

    def _identity(self, facts: dict[str, Any]) -> BlockNames:
        if not self.shares or facts["hash_ids"] is None:
            return self.names.own()
        return self.names.shared(
            facts["prompt_tokens"],
            facts["hash_ids"],
            facts.get("output_hash_ids") or (),
            (facts.get("lora"), facts.get("cache_salt")),
        )


def eos_after(output_tokens: int, max_tokens: int) -> int | None:
    """Where the model ends by itself; None where the client's cap ends it."""
    return output_tokens if output_tokens < max_tokens else None


def _encoder_inputs(items: list[dict[str, Any]] | None) -> tuple[EncoderInput, ...]:
    return tuple(
        EncoderInput(
            item["offset"],
            item["tokens"],
            _or(item["embeds"], item["tokens"]),
            str(item["hash"]),
        )
        for item in items or ()
    )


def _grammar(facts: dict[str, Any]) -> Grammar:
    rejects_at = facts["rejects_at"]
    return Grammar(tokens_left=None if rejects_at is None else rejects_at - 1)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
