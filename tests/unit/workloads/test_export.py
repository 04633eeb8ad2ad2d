"""An exported trace is the same traffic when it is read back as what it was exported to."""

from pathlib import Path

import pytest

from schedbench.errors import OutputError
from schedbench.workloads.export import export_timed_trace
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.trace import Trace

IN_SECONDS = ImportOptions(time_unit="s", hash_block_tokens=4)


def test_every_block_gets_an_id_and_shared_blocks_stay_shared(tmp_path: Path) -> None:
    big = 2**64 - 1
    trace = Trace.from_columns(
        {
            "arrival_ns": [0, 1_000_000_001, 2_000_000_000],
            "prompt_tokens": [9, 9, 5],
            "output_tokens": [1, 2, 3],
            "hash_ids": [[big, 3], [big, 3, 8], None],
            "priority": [1, 1, 1],
        },
        hash_block_tokens=4,
    )
    exported = export_timed_trace(trace, tmp_path / "e.jsonl")
    again = load_trace(tmp_path / "e.jsonl", options=IN_SECONDS)
    assert again.table.column("hash_ids").to_pylist() == [[2, 0, 3], [2, 0, 1], [4, 5]]
    same = ["arrival_ns", "prompt_tokens", "output_tokens"]
    assert again.table.select(same) == trace.table.select(same)
    assert exported.left_out == ("priority",)
    assert "--timed-trace-chunk-hash-size 4 " in exported.command
    assert "--self-timed" in exported.command


def test_a_trace_without_ids_shares_nothing(tmp_path: Path) -> None:
    trace = Trace.from_columns(
        {"arrival_ns": [0, 1], "prompt_tokens": [513, 512], "output_tokens": [1, 1]}
    )
    export_timed_trace(trace, tmp_path / "e.jsonl")
    again = load_trace(tmp_path / "e.jsonl", options=ImportOptions(time_unit="s"))
    assert again.table.column("hash_ids").to_pylist() == [[0, 1], [2]]


def test_an_export_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    trace = Trace.from_columns({"arrival_ns": [0], "prompt_tokens": [1], "output_tokens": [1]})
    with pytest.raises(OutputError, match="no-such-folder"):
        export_timed_trace(trace, tmp_path / "no-such-folder" / "e.jsonl")
