"""Writes trace-format.md from schema and importers: `python docs/make_trace_format.py`.

The tables come from the code; the rest of the page stands here.
"""

from pathlib import Path

import pyarrow as pa

from schedbench.workloads.importers.registry import IMPORTERS
from schedbench.workloads.schema import COLUMNS, Column

PAGE = Path(__file__).parent / "trace-format.md"

HEAD = """# Trace format

Made by `docs/make_trace_format.py` from `workloads/schema.py` and `workloads/importers/`.

A trace is one Parquet file with one row per engine request, sorted by arrival. Three columns are
required; every other one may be absent, and absent and null mean the same. This is a whole trace,
typed by hand as JSON Lines:

```
{"arrival_ns": 0, "prompt_tokens": 10, "output_tokens": 5}
```

The row number is the request's identity. vLLM breaks ties of priority by comparing request ids as
strings, so the scheduler sees the row as nine digits; `request_id` is a label for people.

## Columns, version 1.0

| column | type | unit | null means | meaning |
| --- | --- | --- | --- | --- |
"""

BODY = """
Columns in bold are required. Fields of a struct are not null unless marked `?`. Times are integer
nanoseconds and counts are integers; nothing is a float but `spec.rate`. Other columns are kept, at
the end of the table, when a trace is sliced or transformed; a replay ignores them.

## Prefix identity

`hash_ids` names the prompt's prefixes block by block: equal id, equal prefix up to and with that
block. Hence an id stands at one position and after one predecessor wherever it occurs, and this is
checked. A prompt of p tokens has floor(p / h) or ceil(p / h) ids at h = `hash_block_tokens`; the
extra one covers the partial tail. `output_hash_ids` goes on from the prompt's last full block with
the blocks that generated tokens complete.

```
tokens   |---- h ----|---- h ----|-- tail --|- generated -|
ids      [ hash_ids 0 ][ hash_ids 1 ][ 2: the tail, or not there ]
         [ blocks that the answer completes: output_hash_ids ]
```

No public trace states `output_hash_ids`. On import they are inferred, by one rule for every format
with prefix ids and sessions: a row goes on from the row it names as `after`, else from the turn
before it in its session, and of the rows that go on from one, the first whose prompt begins with
that one's full blocks shows the ids of the blocks that its answer completed. A row that none goes
on from keeps none. `inferred` in the provenance says so.

## Metadata

Parquet key-values, or the first line of the JSON Lines twin. A file without any is taken for
version 1.0.

| key | value |
| --- | --- |
| `schedbench.schema` | `trace` |
| `schedbench.schema_version` | `1.0` |
| `schedbench.hash_block_tokens` | tokens an id covers; there exactly when `hash_ids` is |
| `schedbench.epoch_ns` | Unix time of `arrival_ns` 0, where the source had wall clock |
| `schedbench.digest` | see below |
| `schedbench.provenance` | JSON: where the rows come from and what was done to them |

A reader refuses an unknown major version and reads any minor one. A column never changes meaning,
unit or type; a mistake gets a new name.

## Digest

`sha256:` over the canonical JSON Lines form: the schema's own columns in schema order, nulls left
out, no spaces, one line a row, each ended by a newline. Structs keep the order of their fields;
text and fractions are written as the shortest JSON that reads back the same (a `rate` as the
double that its 32 bits stand for). If there are `hash_ids`, a first line
`{"schedbench.hash_block_tokens":512}` goes before the rows, since equal ids at another block size
mean something else. Epoch, provenance, unknown columns, compression and row groups play no part.
`write_trace` to `.jsonl` writes exactly these lines below its metadata line:

```
$ tail -n +2 trace.jsonl | sha256sum        # if there are no prefix ids or unknown columns
```

The digest is always taken over the rows that were read. The one a file states is only compared
with it, by `schedbench trace check`.

## Provenance

`format`, `files` (name, bytes, SHA-256), `published` (address, licence and attribution of the
format's public files), `options` that differ from their defaults, `rows_read`, `dropped` and
`changed` (rows by reason), `clock` (unit, zone, source time of `arrival_ns` 0), `tick` (step of the
source's clock, instants, most rows at one), `inferred` (columns that no source states),
`transforms` in order, and `notes`, the sentences that an import prints.

## Checked on read

Every row, each time; see `bad-input.md` for what is said.

- The three columns are there, not null, and hold what their types can hold without loss.
- Rows are sorted by `added_ns`, which is `arrival_ns` where it is null; the first arrival is 0.
- `prompt_tokens` and `output_tokens` are at least 1, `max_tokens` at least `output_tokens`,
  `lora` at least 1; times, counts and labels are not negative (`priority` may be).
- `request_id` is unique. `turn` needs a `session` and ascends within it. `after` names an earlier
  row, and `think_ns` needs `after`.
- Ids: as above. Encoder items ascend inside the prompt without overlap. Delays of chunks ascend,
  and nothing follows a close. `valid_tokens <= prefix_tokens <= prompt_tokens`.

## Importing

| format | reads | options of its own |
| --- | --- | --- |
"""

TAIL = """
A folder that the recording scheduler wrote is imported too; see [recording](recording.md).

A format is recognised by content, never by name, and `.gz` and `.zst` are read directly, from any
path or URI that pyarrow knows. For all of them: `--on-zero-output error|drop|one` (failed requests
state no output tokens; the default refuses the file), `--strict-order` (refuse instead of sorting),
`--spread --spread-seed N` (draw the arrivals of one tick of a coarse clock over the tick),
`--dedupe-ids suffix`. `schedbench trace slice` and `replay --limit N` cut a trace afterwards.

Times are brought to nanoseconds by arithmetic on their decimal digits. A binary fraction, as a
Parquet file may hold, stands for its shortest decimal form, so that CSV, JSON Lines and Parquet of
one log give one digest. Digits below a nanosecond are rounded, and counted. Rows of one instant
keep the file's order.

`--map` names the columns of any other file: `--map arrival=ts:ms,prompt=isl,output=osl`. Any column
above can be named, fields of structs with a dot (`observed.ttft=first_token:s`), and each time
takes its unit: `s`, `ms`, `us`, `ns` or `datetime` (`YYYY-MM-DD HH:MM:SS`, up to nine decimals,
with a zone on all rows or on none; without one it is UTC or that of `--tz`). A CSV writes lists as
JSON. Sessions may be any labels and are numbered in order of appearance. `after` names source rows,
counted from 0.

## In Python

```python
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.registry import load_trace
from schedbench.workloads.store import iter_row_groups, write_trace

options = ImportOptions(mapping={"arrival": "ts:ms", "prompt": "isl", "output": "osl"})
trace = load_trace("log.csv", options=options)
trace.column("prompt_tokens")  # a NumPy array; None when the trace has no such column
write_trace(trace, "log.parquet")  # or .jsonl
for part in iter_row_groups("log.parquet"):  # larger than memory; checked as it goes
    ...
```
"""


def type_name(arrow: pa.DataType) -> str:
    if pa.types.is_dictionary(arrow):
        return "dictionary<int32, string>"
    if pa.types.is_list(arrow):
        return f"list<{type_name(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        fields = [f"{f.name} {type_name(f.type)}{'?' if f.nullable else ''}" for f in arrow]
        return f"struct<{', '.join(fields)}>"
    return "float32" if pa.types.is_float32(arrow) else str(arrow)


def row(column: Column) -> str:
    name = f"**`{column.name}`**" if column.required else f"`{column.name}`"
    cells = (name, type_name(column.type), column.unit, column.null_means, column.meaning)
    return "| " + " | ".join(cell or "-" for cell in cells) + " |"


def flags(options: frozenset[str]) -> str:
    named = {"mapping": "map"}
    typed = [f"`--{named.get(option, option).replace('_', '-')}`" for option in sorted(options)]
    return ", ".join(typed) or "-"


def page() -> str:
    columns = "\n".join(row(column) for column in COLUMNS)
    formats = "\n".join(
        f"| `{importer.name}` | {importer.summary} | {flags(importer.options)} |"
        for importer in IMPORTERS.values()
    )
    return f"{HEAD}{columns}\n{BODY}{formats}\n{TAIL}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
