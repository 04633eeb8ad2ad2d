"""Every rule of the format refuses the row that breaks it, whole or batch by batch."""

import math
from typing import Any

import pyarrow as pa
import pytest

from schedbench.errors import TraceError
from schedbench.workloads.check import Checks
from schedbench.workloads.describe import describe
from schedbench.workloads.findings import Oddity
from schedbench.workloads.trace import Trace, canonical, to_arrow

SOUND: dict[str, list[Any]] = {
    "arrival_ns": [0, 1, 1],
    "prompt_tokens": [8, 8, 12],
    "output_tokens": [5, 5, 5],
}
HASHED: dict[str, list[Any]] = {"hash_ids": [[1, 2], [1, 3], [1, 2, 4]]}
CHUNK = {"delay_ns": 5, "prompt_tokens": 1, "output_tokens": 1}
CLOSE = {"delay_ns": 5, "prompt_tokens": 0, "output_tokens": 0}
ITEM = {"offset": 2, "tokens": 4, "embeds": None, "hash": 7}
REMOTE = {"prefix_tokens": 4}


def in_last_row(value: Any) -> list[Any]:  # noqa: ANN401 - any column's value
    return [None, None, value]


BAD: dict[str, dict[str, Any]] = {
    "row 2, column arrival_ns: 1 comes after 2": {"arrival_ns": [0, 2, 1]},
    "the first arrival is 1, but a trace begins at 0": {"arrival_ns": [1, 2, 3]},
    "row 2, column arrival_ns: is null": {"arrival_ns": [0, 1, None]},
    "row 0, column prompt_tokens: 0 is below 1": {"prompt_tokens": [0, 1, 1]},
    "row 2, column output_tokens: 0 is below 1": {"output_tokens": [1, 1, 0]},
    "row 1, column output_tokens: '5.5' is not a whole": {"output_tokens": ["5", "5.5", "5"]},
    "row 2, column max_tokens: 4 is below the 5 tokens": {"max_tokens": in_last_row(4)},
    "row 2, column added_ns: 0 is before the arrival at 1": {"added_ns": [0, 1, 0]},
    "row 2, column added_ns: 4 comes after 5": {"added_ns": [0, 5, 4]},
    "row 2, column lora: 0 is below 1": {"lora": in_last_row(0)},
    "row 2, column client: -1 is below 0": {"client": in_last_row(-1)},
    "row 2, column abort_after_ns: -1 is below 0": {"abort_after_ns": in_last_row(-1)},
    "row 2, column request_id: 'a' is also the id of row 0": {"request_id": ["a", "b", "a"]},
    "row 2, column after: row 2 is not before row 2": {"after": in_last_row(2)},
    "row 2, column think_ns: is given, but": {
        "after": [None, 0, None],
        "think_ns": [None, 0, 1],
    },
    "row 1, column turn: turn 1 belongs to no session": {
        "turn": [0, 1, 2],
        "session": [1, None, 1],
    },
    "row 2, column turn: turn 0 of session 1 comes after 0": {
        "turn": [0, 0, 0],
        "session": [1, 2, 1],
    },
    "row 2, column chunks: delay 5 comes after 6": {
        "chunks": in_last_row([CHUNK | {"delay_ns": 6}, CHUNK])
    },
    "row 2, column chunks: a segment at 5 ns follows the one that closed": {
        "chunks": in_last_row([CLOSE, CHUNK])
    },
    "row 2, column chunks: a segment of 1 prompt tokens emits 0": {
        "chunks": in_last_row([CHUNK | {"output_tokens": 0}])
    },
    "row 2, column chunks: delay_ns is -1": {"chunks": in_last_row([CHUNK | {"delay_ns": -1}])},
    "row 2, column grammar: rejects_at is 0": {
        "grammar": in_last_row({"delay_ns": 0, "ok": True, "rejects_at": 0})
    },
    "row 2, column grammar: {'delay_ns': 3, 'ok': None": {
        "grammar": in_last_row({"delay_ns": 3, "ok": None})
    },
    "column grammar: lacks the field 'ok'": {
        "grammar": pa.array(in_last_row({"delay_ns": 3}), pa.struct({"delay_ns": pa.int64()}))
    },
    "row 2, column remote_kv: a prefix of 13 tokens in a prompt of 12": {
        "remote_kv": in_last_row({"prefix_tokens": 13})
    },
    "row 2, column remote_kv: 5 valid tokens of a prefix of 4": {
        "remote_kv": in_last_row(REMOTE | {"valid_tokens": 5})
    },
    "row 2, column encoder: an item ends at 13 in a prompt of 12": {
        "encoder": in_last_row([ITEM | {"tokens": 11}])
    },
    "row 2, column encoder: an item at 5 begins before the last one ends at 6": {
        "encoder": in_last_row([ITEM, ITEM | {"offset": 5}])
    },
    "row 2, column encoder: 5 embeddings in 4 tokens": {
        "encoder": in_last_row([ITEM | {"embeds": 5}])
    },
    "row 2, column spec: rate 1.5 is no probability": {"spec": in_last_row({"rate": 1.5})},
    "row 2, column spec: rate nan is no probability": {"spec": in_last_row({"rate": math.nan})},
    "row 2, column observed: ttft_ns is -1": {"observed": in_last_row({"ttft_ns": -1})},
    "row 2, column hash_ids: 1 ids for a prompt of 12 tokens": {"hash_ids": [[1, 2], [1, 3], [1]]},
    "row 2, column hash_ids: id 3 stands at block 0 in row 2, but at block 1 after id 1 in row 1": {
        "hash_ids": [[1, 2], [1, 3], [3, 5, 6]]
    },
    "row 2, column hash_ids: id 2 stands at block 1 after id 9": {
        "hash_ids": [[1, 2], [1, 3], [9, 2, 4]]
    },
    "column output_hash_ids: is given without hash_ids": {"output_hash_ids": in_last_row([5])},
    "row 2, column output_hash_ids: 2 ids, but generated tokens complete 1 blocks": (
        HASHED | {"output_hash_ids": in_last_row([7, 8])}
    ),
    "row 2, column hash_ids: id 3 stands at block 3 after id 4": (
        HASHED | {"output_hash_ids": in_last_row([3])}
    ),
}


def feed(columns: dict[str, Any], rows_at_once: int) -> None:
    """What reading a file does, some rows at a time."""
    table = pa.table({name: to_arrow(name, values) for name, values in columns.items()})
    checks = Checks.of("trace", 4)
    for first in range(0, table.num_rows, rows_at_once):
        checks.feed(canonical(table.slice(first, rows_at_once), "trace", first_row=first))
    checks.finish()


@pytest.mark.parametrize("complaint", BAD)
@pytest.mark.parametrize("rows_at_once", [3, 1])
def test_a_broken_rule_names_its_row(complaint: str, rows_at_once: int) -> None:
    with pytest.raises(TraceError) as refusal:
        feed({**SOUND, **BAD[complaint]}, rows_at_once)
    assert complaint in str(refusal.value)


def test_a_sound_trace_of_every_kind_of_column_passes() -> None:
    columns = {
        **SOUND,
        **HASHED,
        "output_hash_ids": [None, [9], [5]],
        "session": [4, 4, None],
        "turn": [0, 1, None],
        "after": [None, 0, None],
        "think_ns": [None, 7, None],
        "chunks": in_last_row([CHUNK, CLOSE]),
        "grammar": in_last_row({"delay_ns": 0, "ok": False}),
        "remote_kv": in_last_row(REMOTE | {"valid_tokens": 4}),
        "encoder": in_last_row([ITEM, ITEM | {"offset": 6}]),
        "spec": in_last_row({"rate": 1.0}),
        "priority": [-5, None, 5],
    }
    for rows_at_once in (3, 1):
        feed(columns, rows_at_once)


def test_prefix_ids_may_leave_out_or_name_the_partial_tail() -> None:
    for ids in ([1, 2], [1, 2, 3]):
        trace = Trace.from_columns(
            {"arrival_ns": [0], "prompt_tokens": [9], "output_tokens": [1], "hash_ids": [ids]},
            hash_block_tokens=4,
        )
        assert trace.hash_block_tokens == 4


def test_nulls_in_integer_columns_become_what_they_stand_for() -> None:
    trace = Trace.from_columns(
        {
            **SOUND,
            "max_tokens": [None, 9, None],
            "added_ns": [None, None, 4],
            "priority": [None, 1, 2],
            "session": [None, 0, 0],
        }
    )
    names = ("max_tokens", "added_ns", "priority", "session")
    assert {name: list(trace.column(name)) for name in names} == {
        "max_tokens": [5, 9, 5],
        "added_ns": [0, 1, 4],
        "priority": [0, 1, 2],
        "session": [-1, 0, 0],
    }
    assert trace.column("lora") is None


def test_columns_that_are_null_throughout_are_absent() -> None:
    trace = Trace.from_columns({**SOUND, "lora": [None, None, None]})
    assert trace.digest == Trace.from_columns(SOUND).digest
    assert not trace.has("lora")


def test_a_transform_is_recorded_and_moves_the_epoch() -> None:
    trace = Trace.from_columns(SOUND, epoch_ns=100, provenance={"format": "made up"})
    later = trace.with_table(trace.table, {"step": "slice"}, shift_ns=7)
    assert (later.epoch_ns, later.provenance) == (
        107,
        {"format": "made up", "transforms": [{"step": "slice"}]},
    )
    assert trace.provenance == {"format": "made up"}


def test_findings_tell_of_strange_columns_and_of_rows_changed_after_writing() -> None:
    table = pa.table({**SOUND, "zone": ["a", "b", "c"]})
    trace = Trace(table, stored_digest="sha256:0")
    found = {each.oddity: each.text for each in describe(trace).findings}
    assert "sha256:0" in found[Oddity.ROWS_CHANGED]
    assert trace.digest in found[Oddity.ROWS_CHANGED]
    assert found[Oddity.UNKNOWN_COLUMNS].endswith("without effect on a replay: zone")
