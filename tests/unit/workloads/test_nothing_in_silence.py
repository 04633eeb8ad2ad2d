"""What a reader does not understand is refused, with the line and a remedy; nothing is merged."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.errors import SchedbenchError, TraceError
from schedbench.workloads.importers.mapping import parse_mapping
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.trace import Trace

Write = Callable[[str, str | bytes], Path]
MAPPED = ImportOptions(mapping={"arrival": "t:s", "prompt": "in", "output": "out"})
HEADER = "t,in,out,note\n"
PLAIN = "t,in,out\n0,5,3\n1,6,4\n"


def load(write: Write, content: str | bytes, **changes: Any) -> Trace:  # noqa: ANN401
    options = ImportOptions(mapping={**MAPPED.mapping, **changes})
    return load_trace(write("log.csv", content), options=options)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ('0,5,3,"bad\n1,5,3,x\n2,5,3,y\n', "line 2 has a quote that is not closed on its line"),
        ('0,5,3,x\n1,5,3,"bad\n2,5,3,"y\n', "line 3 has a quote that is not closed"),
        ('0,5,3,x\n1,5,3,"two\nlines"\n', "line 3 has a quote that is not closed"),
        ('0,5,3,"x"y\n', "line 2 has text behind the quote"),
        ('0,5,3,x\n1,5,3,x"y"z\n', "line 3 has a quote within a value"),
        ('0,5,3, "x"\n', "line 2 has a quote within a value"),
        ("0,5,3,x\n1,5,3,\x00\n", "line 3 holds a NUL byte"),
        ("0,5,3,x\r1,5,3,y\n", "line 2 holds a carriage return"),
        ("0,5,3,x\n1,5,3\n", "row 1 (line 3) has 3 values where the header has 4"),
        ("0,5,3,x\n1;5;3;x\n", "row 1 (line 3) has 1 values where the header has 4"),
    ],
)
def test_text_that_csv_does_not_allow_is_refused_by_its_line(
    write: Write, rows: str, says: str
) -> None:
    with pytest.raises(TraceError) as caught:
        load(write, HEADER + rows)
    assert says in str(caught.value)
    assert str(caught.value).count(". ") >= 1  # a remedy


NOTE = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), max_size=8)


@given(st.lists(NOTE, min_size=1, max_size=6), st.booleans())
def test_quoted_values_are_read_as_the_csv_module_writes_them(
    tmp_path_factory: pytest.TempPathFactory, notes: list[str], always: bool
) -> None:
    def cell(note: str) -> str:
        quoted = '"' + note.replace('"', '""') + '"'
        return quoted if always or {'"', ",", ";", "|", "\t"} & set(note) else note

    text = HEADER + "".join(f"{at},5,3,{cell(note)}\n" for at, note in enumerate(notes))
    path = tmp_path_factory.mktemp("csv") / "log.csv"
    path.write_text(text)
    trace = load_trace(path, options=ImportOptions(mapping={**MAPPED.mapping, "group": "note"}))
    read = trace.table.column("group").to_pylist() if trace.has("group") else [None] * len(notes)
    assert read == [note or None for note in notes]


@given(st.integers(2, 40), st.data())
def test_a_stray_quote_anywhere_is_refused_or_stands_in_a_quoted_value(
    tmp_path_factory: pytest.TempPathFactory,
    rows: int,
    data: Any,  # noqa: ANN401
) -> None:
    text = HEADER + "".join(f"{at},5,3,x\n" for at in range(rows))
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(len(HEADER), len(text) - 1))
        text = text[:at] + '"' + text[at:]
    path = tmp_path_factory.mktemp("csv") / "log.csv"
    path.write_text(text)
    try:
        found = load_trace(path, options=MAPPED).num_requests
    except TraceError as error:
        found = rows if "line " in str(error) else 0
    assert found == rows  # none is merged


def test_blanks_around_names_of_a_header_are_no_part_of_them(write: Write) -> None:
    assert load(write, "t, in, out\n0, 5, 3\n").num_requests == 1


def _zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("log.csv", PLAIN)
    return sink.getvalue()


def _tar() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("log.csv"), io.BytesIO())
    return sink.getvalue()


def _written(write: Callable[[pa.Table, Any], object]) -> bytes:
    sink = io.BytesIO()
    write(pa.table({"t": [0], "in": [1], "out": [1]}), sink)
    return sink.getvalue()


def _sqlite() -> bytes:
    base = sqlite3.connect(":memory:")
    base.execute("create table log (t)")
    return base.serialize()


def _npy() -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.zeros(3))
    return sink.getvalue()


CONTAINERS = {
    "compressed with bzip2": bz2.compress(PLAIN.encode()),
    "compressed with xz": lzma.compress(PLAIN.encode()),
    "compressed with LZMA": lzma.compress(PLAIN.encode(), lzma.FORMAT_ALONE),
    "a zip archive": _zip(),
    "a tar archive": _tar(),
    "compressed twice": gzip.compress(gzip.compress(PLAIN.encode())),
    "Feather": _written(pyarrow.feather.write_feather),
    "Parquet that was compressed as a whole": gzip.compress(_written(pq.write_table)),
    "an SQLite database": _sqlite(),
    "a NumPy array": _npy(),
    "a Python pickle": pickle.dumps({"t": 1}),
    "UTF-16 text": PLAIN.encode("utf-16"),
    "binary": b"\x01\x02\x00\x03" * 40,
    "ORC": b"ORC\x01\x02",
    "Avro": b"Obj\x01\x02",
    "encrypted Parquet": b"PARE\x01\x02",
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("mapped", [True, False])
def test_a_container_that_is_not_read_is_named_whatever_the_file_is_called(
    write: Write, name: str, mapped: bool
) -> None:
    path = write("log.csv", CONTAINERS[name])
    with pytest.raises(TraceError, match=f"is {name}") as caught:
        load_trace(path, options=MAPPED if mapped else ImportOptions())
    assert str(caught.value).isprintable()


def test_what_is_no_file_says_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for named, says in (
        ("-", "is a pipe"),
        (tmp_path / "pipe", "is a pipe"),
        ("https://example.org/log.csv", "Download it first"),
        ("nowhere://log.csv", "cannot be located"),
    ):
        with pytest.raises(TraceError, match=says):
            load_trace(named)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deep"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("NaN", "NaN"),
    ],
)
def test_json_that_stands_for_no_value_is_refused_by_its_line(
    write: Write, line: str, says: str
) -> None:
    row = '{"arrival_ns":0,"prompt_tokens":1,"output_tokens":1,"x":1}\n'
    broken = row.replace('"x":1', f'"max_tokens":1,"x":{line},"x2":[1,{{}}]')
    with pytest.raises(TraceError, match=says) as caught:
        load_trace(write("t.jsonl", row + broken))
    assert "line 2" in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"arrival_ns": [0, 2**63 - 1]},
        {"arrival_ns": [0, 2**60 + 1]},
        {"think_ns": [None, 2**62], "after": [None, 0]},
        {"abort_after_ns": [None, 2**61]},
        {"chunks": [None, [{"delay_ns": 2**61, "prompt_tokens": 1, "output_tokens": 1}]]},
        {"remote_kv": [None, {"prefix_tokens": 1, "load_ns": 2**61}]},
        {"grammar": [None, {"delay_ns": 2**61, "ok": True}]},
        {"observed": [None, {"e2e_ns": 2**61}]},
    ],
    ids=str,
)
def test_every_time_of_a_trace_has_a_range(changes: dict[str, Any]) -> None:
    sound = {"arrival_ns": [0, 1], "prompt_tokens": [2, 2], "output_tokens": [1, 1]}
    with pytest.raises(TraceError, match=r"row 1, column .*36 years"):
        Trace.from_columns(sound | changes)


@pytest.mark.parametrize(
    "waits",
    [
        {"think_ns": [None, *[2**60] * 11]},
        {"grammar": [{"delay_ns": 2**60, "ok": True}] * 12},
        {"remote_kv": [{"prefix_tokens": 1, "load_ns": 2**59, "send_ns": 2**59}] * 12},
    ],
    ids=lambda waits: next(iter(waits)),
)
def test_waits_that_a_closed_loop_would_add_up_beyond_the_clock_are_refused(
    waits: dict[str, Any],
) -> None:
    rows = {name: [5] * 12 for name in ("prompt_tokens", "output_tokens")}
    after = {"arrival_ns": list(range(12)), "after": [None, *range(11)]}
    with pytest.raises(TraceError, match="years in all"):
        Trace.from_columns(rows | after | waits)


@pytest.mark.parametrize(
    ("times", "unit", "likely"),
    [
        ([1_700_000_000 + n for n in range(30)], "ms", "s"),
        ([1_700_000_000_000 + 900 * n for n in range(30)], "ns", "ms"),
        ([1_700_000_000_000_000 + 900_000 * n for n in range(30)], "ns", "us"),
        ([400 * n for n in range(30)], "ns", "us"),
        ([1_700_000_000 + n for n in range(30)], "s", None),
        ([1_700_000_000_000 + 900 * n for n in range(30)], "ms", None),
        ([100 * n for n in range(30)], "ms", None),
        ([0.25 * n for n in range(30)], "s", None),
    ],
)
def test_a_unit_that_gives_no_likely_time_is_doubted_with_the_likely_one(
    write: Write, times: list[float], unit: str, likely: str | None
) -> None:
    rows = "".join(f"{time},5,3\n" for time in times)
    doubts = load(write, "t,in,out\n" + rows, arrival=f"t:{unit}").provenance.get("doubts", [])
    assert [f"they are likely {likely}" in doubt for doubt in doubts] == [True] * bool(likely)


def parquet_of(path: Path, times: pa.Array) -> Path:
    pq.write_table(pa.table({"t": times, "in": [1] * len(times), "out": [1] * len(times)}), path)
    return path


def test_times_stored_by_their_distinct_values_are_read_as_others(tmp_path: Path) -> None:
    texts = pa.array(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"])
    options = ImportOptions(mapping={**MAPPED.mapping, "arrival": "t:datetime"})
    found = [
        load_trace(parquet_of(tmp_path / "t.parquet", column), options=options).digest
        for column in (texts, texts.dictionary_encode(), texts.cast(pa.large_string()))
    ]
    assert len(set(found)) == 1


def test_times_whose_floats_are_too_coarse_to_differ_are_refused(tmp_path: Path) -> None:
    coarse = pa.array([1.7e9, 1.7e9 + 1, 1.7e9 + 2], pa.float32())
    with pytest.raises(TraceError, match="float64"):
        load_trace(parquet_of(tmp_path / "t.parquet", coarse), options=MAPPED)
    fine = coarse.cast(pa.float64())
    assert load_trace(parquet_of(tmp_path / "t.parquet", fine), options=MAPPED).num_requests == 3


@pytest.mark.parametrize(
    "values",
    [
        pa.array([9007199254740993.0 * 4]),
        pa.array([True]),
        pa.array([-1]),
        pa.array(["99999999999999999999"]),
        pa.array([b"\xee\x1b"]),
        pa.array([1], pa.date32()),
    ],
    ids=lambda values: str(values.type),
)
def test_values_that_are_no_counts_are_refused_as_the_file_would_write_them(
    tmp_path: Path, values: pa.Array
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": [0], "in": values, "out": [1]}), path)
    with pytest.raises(TraceError) as caught:
        load_trace(path, options=MAPPED)
    assert not [word for word in ("datetime.", "Decimal(", "b'") if word in str(caught.value)]


ANSWERED = {
    "mooncake": (
        ImportOptions(),
        [
            {"timestamp": 0, "input_length": 1024, "output_length": 512, "session_id": "a",
             "hash_ids": [0, 1]},
            {"timestamp": 9000, "input_length": 2048, "output_length": 5, "session_id": "a",
             "hash_ids": [0, 1, 2, 3]},
        ],
    ),
    "bailian": (
        ImportOptions(hash_block_tokens=512),
        [
            {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 1024,
             "output_length": 512, "type": "text", "turn": 1, "hash_ids": [0, 1]},
            {"chat_id": 2, "parent_chat_id": 1, "timestamp": 9, "input_length": 2048,
             "output_length": 5, "type": "text", "turn": 2, "hash_ids": [0, 1, 2, 3]},
        ],
    ),
    "columns": (
        ImportOptions(
            hash_block_tokens=512,
            mapping={**MAPPED.mapping, "session": "s", "hash_ids": "ids"},
        ),
        [
            {"t": 0, "in": 1024, "out": 512, "s": "a", "ids": [0, 1]},
            {"t": 9, "in": 2048, "out": 5, "s": "a", "ids": [0, 1, 2, 3]},
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERED)
def test_every_importer_with_sessions_infers_the_ids_of_answers_alike(
    write: Write, name: str
) -> None:
    options, rows = ANSWERED[name]
    lines = "".join(f"{row}\n" for row in rows).replace("'", '"')
    trace = load_trace(write("t.jsonl", lines), options=options)
    assert trace.table.column("output_hash_ids").to_pylist() == [[2], None]
    assert "output_hash_ids" in trace.provenance["inferred"]


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ("arival=t:s,prompt=in,output=out", "did you mean arrival?"),
        ("arrival=t:s,prompts=in,output=out", "did you mean prompt?"),
        ("arrival=t:s,prompt=in,output=out,sesion=x", "did you mean session?"),
        ("arrival=t:s,prompt=in,output=out,qqq=x", "there are arrival, prompt, output, id, "),
        ("arrival=t:sec,prompt=in,output=out", "did you mean t:s?"),
        ("arrival=t:MS,prompt=in,output=out", "did you mean t:ms?"),
        ("arrival=t:s,prompt=inn,output=out", "has no column 'inn', but 'in'"),
    ],
)
def test_a_slip_in_a_mapping_is_answered_with_what_was_likely_meant(
    write: Write, mapping: str, says: str
) -> None:
    with pytest.raises(SchedbenchError) as caught:
        load_trace(write("log.csv", PLAIN), options=ImportOptions(mapping=parse_mapping(mapping)))
    assert says.lower() in str(caught.value).lower()


STAMPS = pa.array([0], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("columns", "likely"),
    [
        ({"timestamp": STAMPS, "input_tokens": [1], "output_tokens": [1]},
         "arrival=timestamp,prompt=input_tokens,output=output_tokens"),
        ({"ts": [0], "isl": [1], "osl": [1]}, "arrival=ts:s,prompt=isl,output=osl"),
        ({"when": ["a"], "in": [1], "out": [1]}, "arrival=NAME:s,prompt=in,output=out"),
        ({"start_time": ["2026-01-01"], "prompt": ["hi"], "prompt_len": [1], "completion_len": [1]},
         "arrival=start_time:datetime,prompt=prompt_len,output=completion_len"),
    ],
)  # fmt: skip
def test_a_file_of_no_known_format_is_answered_with_a_mapping_of_its_own_columns(
    tmp_path: Path, columns: dict[str, Any], likely: str
) -> None:
    path = tmp_path / "any.parquet"
    pq.write_table(pa.table(columns).replace_schema_metadata({"pandas": "{}"}), path)
    with pytest.raises(TraceError) as caught:
        load_trace(path)
    assert f"--map {likely}; " in str(caught.value)
    assert f"with the columns {', '.join(columns)}. " in str(caught.value)
