"""Valid small traces of every importer's format, and what is done to them for `fuzz_commands`."""

import bz2
import gzip
import io
import json
import lzma
import random
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from fuzz_case import Case

Mutation = Callable[[random.Random, bytes], bytes]

_ROWS = 8
_MAP = ("--map", "arrival=t:s,prompt=in,output=out")
_REPLAY = ("--no-store", "--cost", "pass:1ms", "--max-model-len", "512", "--num-gpu-blocks", "200")
_COMMANDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("trace", "check"), ()),
    (("trace", "describe"), ()),
    (("trace", "import"), ("-o", "written.parquet", "--force")),
    (("replay",), _REPLAY),
)


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid file of one format, and the flags it is read with."""

    kind: str
    suffix: str
    content: bytes
    flags: tuple[str, ...] = ()


def _lines(*objects: object) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in objects).encode()


def _parquet(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _own(rng: random.Random) -> list[dict[str, Any]]:
    nested: list[dict[str, Any]] = [
        {"chunks": [{"delay_ns": 10**6, "prompt_tokens": 8, "output_tokens": 2}]},
        {"grammar": {"delay_ns": 5, "ok": True, "rejects_at": 2}},
        {"remote_kv": {"prefix_tokens": 16, "load_ns": 10**6, "valid_tokens": 16}},
        {"encoder": [{"offset": 1, "tokens": 8, "hash": 7}]},
        {"observed": {"ttft_ns": 10**6, "e2e_ns": 10**7, "cached_tokens": 0}},
        {"hash_ids": [0, 1], "output_hash_ids": [2], "session": 1, "turn": 0},
        {"request_id": "a", "max_tokens": 90, "priority": -1, "lora": 1, "client": 1},
        {"think_ns": 5, "after": 0, "abort_after_ns": 10**9, "cache_salt": 3},
    ]
    rows = []
    for row in range(_ROWS):
        sizes = {"prompt_tokens": rng.randint(17, 60), "output_tokens": rng.randint(1, 9)}
        rows.append({"arrival_ns": row * 10**6, **sizes, **(nested[row] if row else {})})
    return rows


def seeds(rng: random.Random) -> list[Seed]:
    """One valid file of each format and carrier."""
    header = {"schedbench.schema": "trace", "schedbench.schema_version": "1.0"}
    block = {"schedbench.hash_block_tokens": 16}
    flat = [{k: row[k] for k in list(row)[:3]} for row in _own(rng)]
    columns = {name: [row[name] for row in flat] for name in flat[0]}
    sizes = [(rng.randint(1, 60), rng.randint(1, 9)) for _ in range(_ROWS)]
    table = {"t": [n / 4 for n in range(_ROWS)], "in": [p for p, _ in sizes]}
    table["out"] = [o for _, o in sizes]
    named = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return [
        Seed("schedbench.jsonl", ".jsonl", _lines(header | block, *_own(rng))),
        Seed("schedbench-bare.jsonl", ".jsonl", _lines(*flat)),
        Seed("schedbench.parquet", ".parquet", _parquet(columns)),
        Seed("azure", ".csv", _azure(sizes)),
        Seed("burstgpt", ".csv", _burstgpt(sizes)),
        Seed("mooncake", ".jsonl", _lines(*_mooncake(sizes))),
        Seed("mooncake-sessions", ".jsonl", _lines(*_turns(sizes))),
        Seed("bailian", ".jsonl", _lines(*_bailian(sizes))),
        Seed("vllm-spans", ".jsonl", _lines(*map(_span, range(_ROWS)))),
        Seed("columns.csv", ".csv", _csv(named), _MAP),
        Seed("columns.jsonl", ".jsonl", _lines(*named), _MAP),
        Seed("columns.parquet", ".parquet", _parquet(table), _MAP),
        Seed("unmapped.csv", ".csv", _csv(named)),
    ]


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def _azure(sizes: Sequence[tuple[int, int]]) -> bytes:
    stamp = "2023-11-16 18:15:4{n}.6805900"
    names = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    rows = [(stamp.format(n=n), *size) for n, size in enumerate(sizes)]
    return _csv([dict(zip(names, row, strict=True)) for row in rows])


def _burstgpt(sizes: Sequence[tuple[int, int]]) -> bytes:
    return _csv(
        [
            {
                "Timestamp": n,
                "Session ID": f"s{n % 3}",
                "Elapsed time": 0.5,
                "Model": "ChatGPT",
                "Request tokens": prompt,
                "Response tokens": output,
                "Total tokens": prompt + output,
                "Log Type": "API log",
            }
            for n, (prompt, output) in enumerate(sizes)
        ]
    )


def _mooncake(sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {"timestamp": 500 * n, "input_length": p, "output_length": o, "hash_ids": [n % 3]}
        for n, (p, o) in enumerate(sizes)
    ]


def _turns(sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    rows = _mooncake(sizes)
    for n, row in enumerate(rows):
        row["session_id"] = f"s{n % 2}"
        if n >= 2:
            row["delay"] = row.pop("timestamp") / 10
    return rows


def _bailian(sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {
            "chat_id": n,
            "parent_chat_id": n - 2 if n >= 2 else -1,
            "timestamp": n / 2,
            "input_length": p,
            "output_length": o,
            "type": "text",
            "turn": n // 2 + 1,
            "hash_ids": list(range(-(-p // 16))),
        }
        for n, (p, o) in enumerate(sizes)
    ]


def _span(n: int) -> dict[str, Any]:
    told = {
        "gen_ai.usage.prompt_tokens": {"intValue": str(9 + n)},
        "gen_ai.usage.completion_tokens": {"intValue": "4"},
        "gen_ai.request.id": {"stringValue": f"r{n}"},
        "gen_ai.latency.time_to_first_token": {"doubleValue": 0.125},
    }
    attributes = [{"key": key, "value": value} for key, value in told.items()]
    start = {"startTimeUnixNano": str(1_785_000_000_000_000_000 + n * 10**6)}
    span = {"name": "llm_request", **start, "attributes": attributes}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


_ODD = (
    b'"', b"'", b"\x1b[31m", b"\x00", b"\r", b"\n\n", b"\xff\xfe", b"\xef\xbb\xbf", b",", b"\t",
    b";", b"{}", b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"1.5",
    str(2**31).encode(), str(2**63 - 1).encode(), str(2**63).encode(), str(2**64).encode(),
    b"9" * 400, b"9007199254740993.0", b"[" * 3000, b'{"a":' * 3000, b"1970-01-01T00:00:00Z",
    "\u202e\u0085".encode(), b"\\u001b[31m", b"\\ud800",
)  # fmt: skip
_CELL = re.compile(rb'(?<=[,:\n\[ ])-?[\w.:-]+(?=[,}\n\]])|"[^"\n]*"')


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 10))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_ODD) + data[at:]


def _replace_cell(rng: random.Random, data: bytes) -> bytes:
    """A value or name becomes something odd: another type, a huge number, deep nesting."""
    cells = list(_CELL.finditer(data))
    if not cells:
        return _insert(rng, data)
    cell = rng.choice(cells)
    return data[: cell.start()] + rng.choice(_ODD) + data[cell.end() :]


def _rename(rng: random.Random, data: bytes) -> bytes:
    """A name from anywhere in the file is changed wherever it stands."""
    names = sorted(set(re.findall(rb"[A-Za-z_]{2,}", data)))
    if not names:
        return _flip(rng, data)
    other = rng.choice((b"\x1b[2J", b"x", b"", rng.choice(names), b"a" * 300))
    return data.replace(rng.choice(names), other)


def _shuffle_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _pack(rng: random.Random, data: bytes) -> bytes:
    """Another container, whole or cut."""
    packed = rng.choice((_zip, bz2.compress, lzma.compress, gzip.compress, _zstd, _utf16, _cr))(
        data
    )
    return packed if rng.random() < 0.7 else _truncate(rng, packed)


def _zip(data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("trace", data)
    return sink.getvalue()


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def _utf16(data: bytes) -> bytes:
    return data.decode("latin-1").encode("utf-16")


def _cr(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r")


def _retype(rng: random.Random, data: bytes) -> bytes:
    """A Parquet column with other values or another type, or the table in another container."""
    if data[:4] != b"PAR1":
        return _replace_cell(rng, data)
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):  # an earlier step broke it
        return _flip(rng, data)
    if not table.num_columns or table.num_rows < 2:
        return _flip(rng, data)
    at = rng.randrange(table.num_columns)
    name, rows = table.column_names[at], table.num_rows
    made: list[Any] = [
        pa.array([rng.choice((None, 0, -1, 2**63 - 1, 5)) for _ in range(rows)], pa.int64()),
        pa.array([rng.choice((float("nan"), 1e300)) for _ in range(rows)]),
        pa.array(["2026-01-01T00:00:00Z"] * rows).dictionary_encode(),
        pa.array([b"\xee\x1b"] * rows),
        pa.array([rng.choice((0, 1, 2**62)) for _ in range(rows)], pa.timestamp("us")),
        pa.array(range(rows), pa.date32()),
        pa.array([True] * rows),
        pa.array([[1]] * rows),
        pa.array(range(rows), pa.decimal128(20, 3)),
        pa.nulls(rows),
    ]
    new = rng.choice((name, "", "\x1b[31m", table.column_names[0]))
    table = table.set_column(at, new, rng.choice(made))
    sink = io.BytesIO()
    if rng.random() < 0.1:
        table = table.rename_columns([str(n) for n in range(table.num_columns)])
        pyarrow.feather.write_feather(table, sink)
    else:
        pq.write_table(table, sink)
    return sink.getvalue()


_MUTATIONS: tuple[Mutation, ...] = (
    _flip, _truncate, _insert, _insert, _replace_cell, _replace_cell, _replace_cell, _rename,
    _shuffle_lines, _pack, _retype, _retype,
)  # fmt: skip
_SUFFIXES = (".csv", ".jsonl", ".parquet", ".gz", ".txt", ".csv.gz", ".zip", "")


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    """Mutated traces for the commands that read one, without end."""
    while True:
        for seed in seeds(rng):
            steps = rng.choices(_MUTATIONS, k=rng.choice((0, 1, 1, 1, 2, 3)))
            data = seed.content
            for step in steps:
                data = step(rng, data) if data else data
            suffix = seed.suffix if rng.random() < 0.9 else rng.choice(_SUFFIXES)
            path = folder / f"trace{suffix}"
            path.write_bytes(data)
            head, tail = rng.choice(_COMMANDS)
            about = ", ".join(step.__name__.strip("_") for step in steps) or "as it is"
            yield Case(seed.kind, (*head, path.name, *tail, *seed.flags), about, (path,))
