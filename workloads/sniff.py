"""Which format a file is in, by its content: magic bytes, header or first line."""

import os

import pyarrow as pa

from schedbench.workloads.containers import PARQUET_MAGIC
from schedbench.workloads.csv_text import header_line, names_in
from schedbench.workloads.files import Source, faults, find, open_parquet
from schedbench.workloads.json_lines import first_object
from schedbench.workloads.place import listed
from schedbench.workloads.schema import META_SCHEMA, REQUIRED

OWN_FORMAT = "schedbench"

_BY_COLUMNS = (
    (OWN_FORMAT, frozenset(REQUIRED)),
    ("azure", frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"})),
    ("burstgpt", frozenset({"Timestamp", "Model", "Request tokens", "Response tokens"})),
    ("bailian", frozenset({"chat_id", "parent_chat_id", "timestamp", "input_length"})),
    ("mooncake", frozenset({"timestamp", "input_length", "output_length"})),
    ("mooncake", frozenset({"timestamp", "text_input", "output_length"})),
    ("vllm-spans", frozenset({"resourceSpans"})),
)
"""The first whose columns are all there; the more particular stand first."""

_IN_CSV = frozenset({"azure", "burstgpt"})


def sniff(path: str | os.PathLike[str]) -> str | None:
    """`schedbench`, the name of an importer, or None. Raises TraceError if it cannot be read."""
    source = find(path)
    names = column_names(source)
    if META_SCHEMA in names:
        return OWN_FORMAT
    found = next((name for name, columns in _BY_COLUMNS if columns <= names), None)
    if found is None or kind_of(source) == "parquet":
        return found if found == OWN_FORMAT else None
    return found if (found in _IN_CSV) == (kind_of(source) == "csv") else None


def kind_of(source: Source) -> str:
    """`parquet`, `jsonl` or `csv`: the three carriers."""
    with faults(source.place):
        head = source.head(64)
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        remedy = "Write one object a line; `jq -c '.[]'` does it"
        raise source.place.refuse_input("holds one JSON array, not JSON Lines", remedy)
    return "jsonl" if text.startswith(b"{") else "csv"


def column_names(source: Source) -> set[str]:
    """The names of columns or fields, and of Parquet metadata."""
    match kind_of(source):
        case "parquet":
            with faults(source.place):
                parquet = open_parquet(source)
                keys = {key.decode() for key in parquet.metadata.metadata or {}}
                return keys | set(parquet.schema_arrow.names)
        case "jsonl":
            return set(first_object(source))
        case _:
            return set(names_in(header_line(source)))


def columns_of(source: Source) -> dict[str, pa.DataType | None]:
    """Names of columns or fields in the file's order, with types as far as its head states them."""
    match kind_of(source):
        case "parquet":
            with faults(source.place):
                schema = open_parquet(source).schema_arrow
                return dict(zip(schema.names, schema.types, strict=True))
        case "jsonl":
            first = first_object(source)
            return {name: _json_type(value) for name, value in first.items()}
        case _:
            return dict.fromkeys(names_in(header_line(source)))


def _json_type(value: object) -> pa.DataType | None:
    """None for numbers, as for all of a CSV: any of them may be a count or a time."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None
    return pa.string() if isinstance(value, str) else pa.null()


def describe_head(source: Source) -> str:
    """What a message says of a file that is of no known format."""
    kind = {"parquet": "Parquet", "jsonl": "JSON Lines", "csv": "text"}[kind_of(source)]
    return f"{kind} with the columns {listed(list(columns_of(source))) or 'none'}"
