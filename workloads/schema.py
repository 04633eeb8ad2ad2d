"""The canonical trace schema, version 1.0: one row per engine request, sorted by arrival.

Three columns are required. Every other one may be absent; absent and null mean the same,
"not known, or not used". A row's number is the request's identity: the scheduler sees it as
nine digits, because priority ties are broken by comparing ids as strings. A column never
changes meaning, unit or type; a mistake gets a new name.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

SCHEMA_NAME: Final = "trace"
SCHEMA_VERSION: Final = "1.0"

META_SCHEMA: Final = "schedbench.schema"
META_VERSION: Final = "schedbench.schema_version"
META_HASH_BLOCK: Final = "schedbench.hash_block_tokens"
META_EPOCH: Final = "schedbench.epoch_ns"
META_DIGEST: Final = "schedbench.digest"
META_PROVENANCE: Final = "schedbench.provenance"
METADATA: Final = (
    META_SCHEMA,
    META_VERSION,
    META_HASH_BLOCK,
    META_EPOCH,
    META_DIGEST,
    META_PROVENANCE,
)

NOT_KNOWN: Final = -1
"""What a null becomes in an integer array, where the schema names no value for it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `when_null` is the value, or the name of the column, that a null stands for."""

    name: str
    type: pa.DataType
    unit: str
    null_means: str
    meaning: str
    required: bool = False
    when_null: int | str = NOT_KNOWN

    @property
    def is_flat(self) -> bool:
        """Whether a row holds one whole number, so that the column is an integer array."""
        return bool(pa.types.is_integer(self.type))


def _always(name: str, arrow: pa.DataType) -> pa.Field:
    return pa.field(name, arrow, nullable=False)


def _list_of(item: pa.DataType, *, name: str = "item") -> pa.DataType:
    return pa.list_(_always(name, item))


_IDS = _list_of(pa.uint64())
_CHUNK = pa.struct(
    [
        _always("delay_ns", pa.int64()),
        _always("prompt_tokens", pa.int32()),
        _always("output_tokens", pa.int32()),
    ]
)
_GRAMMAR = pa.struct(
    [
        _always("delay_ns", pa.int64()),
        _always("ok", pa.bool_()),
        pa.field("rejects_at", pa.int32()),
    ]
)
_REMOTE_KV = pa.struct(
    [
        _always("prefix_tokens", pa.int32()),
        pa.field("lookup_ns", pa.int64()),
        pa.field("load_ns", pa.int64()),
        pa.field("valid_tokens", pa.int32()),
        pa.field("send_ns", pa.int64()),
    ]
)
_ENCODER_ITEM = pa.struct(
    [
        _always("offset", pa.int32()),
        _always("tokens", pa.int32()),
        pa.field("embeds", pa.int32()),
        _always("hash", pa.uint64()),
    ]
)
_SPEC = pa.struct(
    [
        pa.field("rate", pa.float32()),
        pa.field("accepted", _list_of(pa.uint8())),
        pa.field("drafts", _list_of(pa.uint8())),
    ]
)
_OBSERVED = pa.struct(
    [
        pa.field("ttft_ns", pa.int64()),
        pa.field("e2e_ns", pa.int64()),
        pa.field("cached_tokens", pa.int32()),
    ]
)

COLUMNS: Final = (
    Column(
        "arrival_ns",
        pa.int64(),
        "ns",
        "",
        "since the trace began; first row 0; never decreasing",
        required=True,
    ),
    Column(
        "prompt_tokens",
        pa.int32(),
        "tokens",
        "",
        "at least 1; the first segment if `chunks` is set",
        required=True,
    ),
    Column(
        "output_tokens",
        pa.int32(),
        "tokens",
        "",
        "tokens the model would emit, at least 1",
        required=True,
    ),
    Column("request_id", pa.string(), "", "the row number", "a label of the source's own, unique"),
    Column(
        "added_ns",
        pa.int64(),
        "ns",
        "equal to `arrival_ns`",
        "when the scheduler saw it, never before its arrival; rows are sorted by this, priority "
        "order uses `arrival_ns`",
        when_null="arrival_ns",
    ),
    Column(
        "max_tokens",
        pa.int32(),
        "tokens",
        "equal to `output_tokens`",
        "the cap the client asked for; an output below it means the model stopped by itself",
        when_null="output_tokens",
    ),
    Column(
        "hash_ids",
        _IDS,
        "blocks",
        "nothing shared",
        "prefix identity of the prompt, one id per `hash_block_tokens`; equal id = equal prefix up "
        "to and with that block; floor or ceil of prompt / block ids, an extra one covers the "
        "partial tail",
    ),
    Column(
        "output_hash_ids",
        _IDS,
        "blocks",
        "not known",
        "ids of the hash blocks completed by generated tokens",
    ),
    Column("session", pa.int64(), "", "none", "conversation or agent run"),
    Column("turn", pa.int32(), "", "none", "0, 1, ... within the session"),
    Column("after", pa.int64(), "row", "open loop", "earlier row that must finish first"),
    Column(
        "think_ns",
        pa.int64(),
        "ns",
        "not known; a closed loop needs it, or --think-time",
        "wait after row `after` finishes",
    ),
    Column("priority", pa.int32(), "", "0", "smaller runs first", when_null=0),
    Column("client", pa.int32(), "", "0", "front-end index", when_null=0),
    Column("lora", pa.int32(), "", "base model", "adapter, 1 and up; part of prefix identity"),
    Column("abort_after_ns", pa.int64(), "ns", "never", "client leaves, counted from arrival"),
    Column(
        "chunks",
        _list_of(_CHUNK),
        "ns, tokens",
        "not streaming",
        "later input segments, delays from arrival, ascending; `prompt_tokens` 0 closes the input",
    ),
    Column(
        "cache_salt",
        pa.int32(),
        "",
        "none",
        "requests with different salts share no prefix",
    ),
    Column(
        "grammar",
        _GRAMMAR,
        "ns",
        "none",
        "structured output: compiled after `delay_ns`; `ok` false = compile error; the grammar "
        "ends the request at output token `rejects_at`",
    ),
    Column(
        "remote_kv",
        _REMOTE_KV,
        "tokens, ns",
        "none",
        "KV held elsewhere from position 0; lookup undecided until `lookup_ns`; an asynchronous "
        "load takes `load_ns` (null = at once); only `valid_tokens` arrive intact; blocks held "
        "`send_ns` after finish",
    ),
    Column(
        "encoder",
        _list_of(_ENCODER_ITEM),
        "tokens",
        "none",
        "multi-modal items, ascending, inside the prompt; `embeds` if fewer than `tokens`; equal "
        "`hash` = same item",
    ),
    Column(
        "spec",
        _SPEC,
        "",
        "the run's setting",
        "`rate`: chance that a draft token is accepted; or `accepted` drafts step by step; "
        "`drafts` proposed step by step",
    ),
    Column(
        "group",
        pa.dictionary(pa.int32(), pa.string()),
        "",
        "one group",
        "label for reports: model, tenant, log type",
    ),
    Column(
        "observed",
        _OBSERVED,
        "ns, tokens",
        "not recorded",
        "what the source measured; the scheduler never reads it",
    ),
    Column("source_row", pa.int64(), "row", "not known", "zero-based row in the source"),
)

BY_NAME: Final = {column.name: column for column in COLUMNS}
REQUIRED: Final = tuple(column.name for column in COLUMNS if column.required)
SCHEMA: Final = pa.schema(
    [pa.field(column.name, column.type, nullable=not column.required) for column in COLUMNS]
)
