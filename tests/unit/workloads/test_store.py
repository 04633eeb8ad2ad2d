"""Files: what is written is read again, and what is damaged is refused."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedbench.errors import OutputError, TraceError, UsageError
from schedbench.workloads.store import iter_row_groups, read_trace, write_trace
from schedbench.workloads.trace import Trace

Write = Callable[[str, str | bytes], Path]

ONE_ROW = '{"arrival_ns": 0, "prompt_tokens": 10, "output_tokens": 5}\n'
NS = st.integers(0, 2**60)
INT32 = st.integers(0, 2**31 - 1)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def struct(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


FREE_COLUMNS = {
    "priority": st.integers(-(2**31), 2**31 - 1),
    "client": INT32,
    "lora": st.integers(1, 9),
    "cache_salt": INT32,
    "abort_after_ns": NS,
    "session": st.integers(0, 2**63 - 1),
    "group": st.text(max_size=5),
    "grammar": struct(delay_ns=NS, ok=st.booleans(), rejects_at=maybe(st.integers(1, 9))),
    "remote_kv": struct(prefix_tokens=st.integers(0, 1), lookup_ns=maybe(NS), load_ns=maybe(NS)),
    "spec": struct(
        rate=maybe(st.floats(0, 1, width=32)), drafts=maybe(st.lists(st.integers(0, 255)))
    ),
    "observed": struct(ttft_ns=maybe(NS), e2e_ns=maybe(NS), cached_tokens=maybe(INT32)),
    "source_row": st.integers(0, 2**62),
}


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any trace: a few rows, any of the columns that rows may fill independently."""
    rows = draw(st.integers(1, 6))
    names = draw(st.sets(st.sampled_from(sorted(FREE_COLUMNS))))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    arrivals = sorted(column(NS))
    columns: dict[str, Any] = {
        "arrival_ns": np.array(arrivals) - arrivals[0],
        "prompt_tokens": column(st.integers(1, 2**31 - 1)),
        "output_tokens": column(st.integers(1, 2**31 - 1)),
        **{name: column(maybe(FREE_COLUMNS[name])) for name in sorted(names)},
    }
    if draw(st.booleans()):
        columns["prompt_tokens"] = [1] * rows
        columns["hash_ids"] = column(maybe(st.lists(st.integers(0, 2**64 - 1), max_size=1)))
    if draw(st.booleans()):
        columns["of_my_own"] = column(st.integers(-(2**63), 2**63 - 1))
    epoch_ns = draw(maybe(st.integers(0, 2**62)))
    return Trace.from_columns(
        columns, hash_block_tokens=16, epoch_ns=epoch_ns, provenance={"format": "made up"}
    )


@given(traces(), st.sampled_from(["t.parquet", "t.jsonl"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_trace_written_and_read_is_the_same_trace(
    tmp_path: Path, trace: Trace, name: str
) -> None:
    write_trace(trace, tmp_path / name)
    again = read_trace(tmp_path / name)
    assert again.table.to_pylist() == trace.table.to_pylist()
    assert again.digest == again.stored_digest == trace.digest
    assert again.epoch_ns == trace.epoch_ns
    assert again.hash_block_tokens == trace.hash_block_tokens
    assert again.provenance == trace.provenance


@given(traces())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_row_groups_hold_the_rows_of_the_whole(tmp_path: Path, trace: Trace) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(trace.table, path, row_group_size=2)
    if trace.has("hash_ids"):
        with pytest.raises(TraceError, match="how many tokens each covers"):
            list(iter_row_groups(path))
        return
    groups = list(iter_row_groups(path))
    rows = [row for group in groups for row in group.select(["arrival_ns"]).to_pylist()]
    assert rows == trace.table.select(["arrival_ns"]).to_pylist()


def test_the_digest_is_that_of_the_json_lines_without_their_header(tmp_path: Path) -> None:
    trace = Trace.from_columns({"arrival_ns": [0], "prompt_tokens": [10], "output_tokens": [5]})
    # sha256 of the line below and a newline, by any other tool
    line = '{"arrival_ns":0,"prompt_tokens":10,"output_tokens":5}\n'
    write_trace(trace, tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text().partition("\n")[2] == line
    assert trace.digest == (
        "sha256:44751ecb95330098e9dcdd4572c5eb8f1a985a5def238a74eebf8473f3419983"
    )


def test_a_trace_can_be_typed_by_hand(write: Write) -> None:
    assert read_trace(write("t.jsonl", ONE_ROW)).num_requests == 1


def test_compression_is_seen_by_content_not_by_name(write: Write) -> None:
    text = ONE_ROW.encode()
    zstd = pa.Codec("zstd").compress(text, asbytes=True)
    for packed in (gzip.compress(text), gzip.compress(text) * 2, zstd):
        assert read_trace(write("t.jsonl", packed)).num_requests in {1, 2}


def test_uris_are_read_as_paths_are(write: Write) -> None:
    path = write("t.jsonl", ONE_ROW)
    assert read_trace(f"file://{path}").digest == read_trace(path).digest


def test_unknown_columns_come_last_and_stay(write: Write) -> None:
    row = '{"zone": "eu", "arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1}\n'
    trace = read_trace(write("t.jsonl", row))
    assert trace.table.column_names[-1] == "zone"
    assert trace.unknown_columns == ["zone"]
    assert trace.with_table(trace.table, {"step": "none"}).unknown_columns == ["zone"]


def test_a_limit_keeps_the_first_rows_and_says_so(write: Write) -> None:
    path = write("t.jsonl", ONE_ROW * 3)
    trace = read_trace(path, limit=2)
    assert trace.num_requests == 2
    assert trace.provenance["transforms"] == [{"step": "slice", "limit": 2}]
    with pytest.raises(TraceError, match="holds 3 requests, and 4 were asked for"):
        read_trace(path, limit=4)
    with pytest.raises(UsageError):
        read_trace(path, limit=0)


def test_the_first_rows_of_a_trace_in_order_of_adding_begin_at_zero(write: Write) -> None:
    rows = [(4, 6), (0, 9)]
    text = "".join(ONE_ROW.replace("0,", f'{a}, "added_ns": {b},', 1) for a, b in rows)
    trace = read_trace(write("t.jsonl", text), limit=1)
    assert trace.table.select(["arrival_ns", "added_ns"]).to_pylist() == [
        {"arrival_ns": 0, "added_ns": 2}
    ]


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_torn_parquet_file_is_an_error_and_not_a_shorter_trace(
    tmp_path: Path, kept: float
) -> None:
    path = tmp_path / "t.parquet"
    rows = np.arange(10_000)
    write_trace(
        Trace.from_columns(
            {"arrival_ns": rows, "prompt_tokens": rows + 1, "output_tokens": rows + 1}
        ),
        path,
    )
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(TraceError, match="cut short"):
        read_trace(path)


def test_another_major_version_is_refused_and_a_minor_one_is_read(tmp_path: Path) -> None:
    table = pa.table({"arrival_ns": [0], "prompt_tokens": [1], "output_tokens": [1]})
    for version, is_read in (("1.7", True), ("2.0", False), ("0.3", False)):
        path = tmp_path / f"{version}.parquet"
        pq.write_table(table.replace_schema_metadata({"schedbench.schema_version": version}), path)
        if is_read:
            assert read_trace(path).num_requests == 1
        else:
            with pytest.raises(TraceError, match=f"schema version {version}.*version 1.*Import"):
                read_trace(path)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    trace = Trace.from_columns({"arrival_ns": [0], "prompt_tokens": [1], "output_tokens": [1]})
    with pytest.raises(OutputError, match="no-such-folder"):
        write_trace(trace, tmp_path / "no-such-folder" / "t.parquet")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="taken"):
        write_trace(trace, tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
