"""Writes docs/pass-log.md from the columns in results/: `python docs/make_pass_log.py`."""

from collections.abc import Sequence
from pathlib import Path

from schedbench.results.columns import Column
from schedbench.results.pass_log import (
    AT_UPDATE,
    BY_VLLM,
    ITL_COLUMNS,
    PASS_COLUMNS,
    SCHEMA_VERSION,
    TIMING_COLUMNS,
    request_columns,
)

PAGE = Path(__file__).parent / "pass-log.md"


def _listed(names: Sequence[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} and {last}"


HEAD = f"""# The pass log

Made by `docs/make_pass_log.py`; schema version {SCHEMA_VERSION}.

A run folder holds `manifest.json` (what was run), `summary.json` (its numbers, see
[metrics](metrics.md)) and four tables as Parquet parts. Each part is complete before it gets its
name, so a killed run loses at most the part that was being filled or written. Any Parquet reader
opens a folder of parts as one table:

```python
import pyarrow.parquet as pq

passes = pq.read_table("runs/20260731T141503Z-azure_conv-1f0c9a2e/passes")
```

All times are whole nanoseconds of the run's clock, which starts at 0. `passes` and `requests` hold
only what trace, flags and reported pass times determine: equal runs have equal rows. Digests are
over values, never over Parquet bytes. Real time stands apart, in `timings`.

A column never changes its meaning, unit or type within a schema version.

With `--scheduler vllm` the installed vLLM's own class makes the passes. It does not say why a loop
ended, so the columns that need it are null: those marked "{BY_VLLM}". This project's own scheduler
fills them in every row.
"""

PASSES = f"""One row a pass, with facts of two moments, the same ones in both modes:

    synchronous      schedule i     update i       schedule i+1   update i+1
    asynchronous     schedule i     schedule i+1   update i       schedule i+2

Columns are settled by the `schedule()` of the pass: queues and blocks are as that call left them.
Settled by its `update_from_output()` are {_listed(AT_UPDATE)}. With a pass in flight, the next pass
is scheduled between the two: a request whose last token comes with the update of pass i still runs
and holds its blocks in row i + 1. Blocks that an update gives back are used ones in its own row,
and free in the first row that is scheduled after it.

What happens between two passes is in the next row: an abort in that of the next update, a
preemption by a cache reset in that of the next `schedule()`, which is where vLLM's class reports it
(`preempted_req_ids`). What happens after the last pass is in the requests table only."""

SECTIONS = (
    ("passes", PASSES, PASS_COLUMNS),
    ("requests", "One row a request, written when it ends; unfinished ones last.", None),
    ("timings", "Real time, one row a pass; differs from run to run.", TIMING_COLUMNS),
    ("itl", "The gaps between tokens over the whole run; a histogram without bins.", ITL_COLUMNS),
)


def page() -> str:
    """The whole page."""
    columns = {None: request_columns(["<verdict>"])}
    sections = [
        f"## {name}\n\n{about}\n\n{_table(columns.get(own, own) or ())}"
        for name, about, own in SECTIONS
    ]
    return "\n".join([HEAD, *sections])


def _table(columns: Sequence[Column]) -> str:
    lines = ["| column | type | unit | meaning | null |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{c.name}` | {_type(c)} | {c.unit} | {c.meaning} | {c.null_when} |" for c in columns
    ]
    return "\n".join(lines) + "\n"


def _type(column: Column) -> str:
    text = str(column.type)
    if text.startswith("dictionary"):
        return "label"
    return "list of int64" if text.startswith("list") else text


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
