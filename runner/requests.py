"""Trace rows become the scheduler's requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedbench.sched.prefix_identity import PrefixNames
from schedbench.sched.request import EncoderInput, Grammar, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedbench.sched.prefix_identity import BlockNames
    from schedbench.workloads.trace import Trace

CHUNK_ROWS = 4096


@dataclass(slots=True)
class Row:
    """One request's life as the replay follows it: the trace's facts, then the times.

    Times are ns of the simulated clock, None until they happen. It travels as `Request.tag`.
    """

    row: int
    request_id: str
    arrival_ns: int
    added_ns: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    priority: int = 0
    client: int = 0
    lora: int = 0
    group: str | None = None
    session: int | None = None
    abort_after_ns: int | None = None
    after: int | None = None
    think_ns: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # nested columns, as the trace has them

    queued_since_ns: int = 0
    queue_marks: tuple[int, ...] = ()
    waited_ns: list[int] = field(default_factory=list)
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

    acceptance: float | None = None  # speculation: chance, accepted counts, proposed counts
    accepted: list[int] | None = None
    drafts: list[int] | None = None
    verifications: int = 0
    proposals: int = 0


class RequestSource:
    """Makes requests of a trace's rows, in file order, a chunk of rows at a time."""

    def __init__(self, trace: Trace, *, block_size: int, enable_prefix_caching: bool) -> None:
        self._trace = trace
        self._shares = enable_prefix_caching and trace.has("hash_ids")
        self._names = PrefixNames(block_size, trace.hash_block_tokens if self._shares else None)

    def __iter__(self) -> Iterator[tuple[Row, Request]]:
        for start in range(0, self._trace.num_requests, CHUNK_ROWS):
            columns = self._trace.table.slice(start, CHUNK_ROWS).to_pydict()
            for offset in range(len(columns["arrival_ns"])):
                facts = {name: values[offset] for name, values in columns.items()}
                yield self._make(start + offset, facts)

    def _make(self, index: int, facts: dict[str, Any]) -> tuple[Row, Request]:
        row = _row(index, facts)
        chunks = facts.get("chunks")
        request = Request(
            f"{index:09d}",  # vLLM breaks priority ties by comparing ids as strings
            num_prompt_tokens=row.prompt_tokens,
            max_tokens=row.max_tokens,
            eos_after=eos_after(row.output_tokens, row.max_tokens),
            arrival_time=row.arrival_ns,
            identity=self._identity(facts),
            priority=row.priority,
            client_index=row.client,
            lora_id=row.lora,
            encoder_inputs=_encoder_inputs(facts.get("encoder")),
            grammar=_grammar(facts.get("grammar")),
            resumable=chunks is not None,
            tag=row,
        )
        return row, request

    def _identity(self, facts: dict[str, Any]) -> BlockNames:
        if not self._shares or facts["hash_ids"] is None:
            return self._names.own()
        return self._names.shared(
            facts["prompt_tokens"],
            facts["hash_ids"],
            facts.get("output_hash_ids") or (),
            (facts.get("lora"), facts.get("cache_salt")),
        )


def _row(index: int, facts: dict[str, Any]) -> Row:
    get = facts.get
    spec = get("spec") or {}
    return Row(
        row=index,
        request_id=get("request_id") or str(index),
        arrival_ns=facts["arrival_ns"],
        added_ns=_or(get("added_ns"), facts["arrival_ns"]),
        prompt_tokens=facts["prompt_tokens"],
        output_tokens=facts["output_tokens"],
        max_tokens=get("max_tokens") or facts["output_tokens"],
        priority=get("priority") or 0,
        client=get("client") or 0,
        lora=get("lora") or 0,
        group=get("group"),
        session=get("session"),
        abort_after_ns=get("abort_after_ns"),
        after=get("after"),
        think_ns=get("think_ns"),
        facts={name: get(name) for name in ("chunks", "grammar", "remote_kv") if get(name)},
        acceptance=spec.get("rate"),
        accepted=spec.get("accepted"),
        drafts=spec.get("drafts"),
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


def _grammar(facts: dict[str, Any] | None) -> Grammar | None:
    if facts is None:
        return None
    rejects_at = facts["rejects_at"]
    return Grammar(tokens_left=None if rejects_at is None else rejects_at - 1)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
