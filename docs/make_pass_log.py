"""Writes docs/pass-log.md from the columns in results/: `python docs/make_pass_log.py`."""

from collections.abc import Sequence
from pathlib import Path

from schedbench.results.columns import Column
from schedbench.results.pass_log import (
    BY_VLLM,
    ITL_COLUMNS,
    PASS_COLUMNS,
    SCHEMA_VERSION,
    TIMING_COLUMNS,
    request_columns,
)

PAGE = Path(__file__).parent / "pass-log.md"

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

SECTIONS = (
    ("passes", "One row a pass.", PASS_COLUMNS),
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
