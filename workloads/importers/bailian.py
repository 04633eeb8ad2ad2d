"""Qwen-Bailian traces: 16-token prefix ids, and chats whose rows name the row they go on from.

`{"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.5, "input_length": 400,
"output_length": 80, "type": "text", "turn": 2, "hash_ids": [7, 8, 9]}`: seconds; a root's parent
is -1. Ids are salted per file, so files are imported one by one.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import required
from schedbench.workloads.exact import exactly
from schedbench.workloads.files import Source
from schedbench.workloads.importers.columns_of import nullable, with_columns
from schedbench.workloads.importers.draft import Batches, Draft, Importer, Published, token_counts
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.sessions import in_sessions
from schedbench.workloads.importers.times import JSON_TIME, Clock
from schedbench.workloads.json_lines import read_json_lines
from schedbench.workloads.schema import BY_NAME

HASH_BLOCK_TOKENS = 16
_IDS = BY_NAME["hash_ids"].type
_FIELDS = {
    "chat_id": pa.int64(),
    "parent_chat_id": pa.int64(),
    "timestamp": JSON_TIME,
    "input_length": pa.int64(),
    "output_length": pa.int64(),
    "type": pa.string(),
    "hash_ids": _IDS,
}
_NAMES = {
    "arrival_ns": "timestamp",
    "prompt_tokens": "input_length",
    "output_tokens": "output_length",
}
Rows = npt.NDArray[np.int64]


def read(source: Source, options: ImportOptions, report: Report) -> Draft:
    clock, batches = Clock(options.time_unit or "s"), Batches(source.place)
    for place, lines in read_json_lines(source, _FIELDS):
        batches.add(
            place,
            arrival_ns=clock.read(lines.column("timestamp"), "timestamp", place),
            prompt_tokens=token_counts(lines.column("input_length"), "input_length", place),
            output_tokens=token_counts(lines.column("output_length"), "output_length", place),
            request_id=exactly(lines.column("chat_id"), pa.string(), "chat_id", place),
            hash_ids=exactly(lines.column("hash_ids"), _IDS, "hash_ids", place),
            group=exactly(lines.column("type"), pa.string(), "type", place),
            _chat=exactly(lines.column("chat_id"), pa.int64(), "chat_id", place),
            _parent=exactly(lines.column("parent_chat_id"), pa.int64(), "parent_chat_id", place),
        )
    table = batches.table()
    parents = _earlier(_parent_rows(table, report), required(table, "arrival_ns"), report)
    table = with_columns(table, after=nullable(parents), _root=pa.array(_roots(parents)))
    place = replace(batches.place, names=_NAMES)
    return Draft(table, clock, place, options.block_tokens(HASH_BLOCK_TOKENS))


def _parent_rows(table: pa.Table, report: Report) -> Rows:
    """The row of each chat's parent; -1 for roots and for parents outside the file."""
    chats = table.column("_chat").to_numpy()
    named = pc.fill_null(table.column("_parent"), -1).to_numpy()
    by_chat = np.argsort(chats, kind="stable")
    at = np.minimum(np.searchsorted(chats[by_chat], named), len(chats) - 1)
    rows = by_chat[at]
    inside = chats[rows] == named
    report.change(
        int(((named >= 0) & ~inside).sum()),
        "chats that go on from one outside the file, taken for roots",
    )
    return np.where((named >= 0) & inside, rows, -1)


def _earlier(parents: Rows, arrivals: npt.NDArray[Any], report: Report) -> Rows:
    """Only parents that came before: a request cannot follow a later one."""
    rows, of_parent = np.arange(len(parents)), arrivals[parents]
    before = (of_parent < arrivals) | ((of_parent == arrivals) & (parents < rows))
    report.change(
        int(((parents >= 0) & ~before).sum()),
        "chats no later than the one they go on from, which wait for none",
    )
    return np.where(before, parents, -1)


def _roots(parents: Rows) -> Rows:
    """The first row of each chat's chain, found by doubling the step until nothing moves."""
    root = np.where(parents >= 0, parents, np.arange(len(parents)))
    while not np.array_equal(further := root[root], root):
        root = further
    return root


def link(table: pa.Table, _draft: Draft, _report: Report) -> pa.Table:
    return with_columns(table, **in_sessions(table.column("_root")).columns())


BAILIAN = Importer(
    name="bailian",
    summary="Qwen-Bailian traces, one file a trace (JSON Lines)",
    read=read,
    link=link,
    options=frozenset({"time_unit", "hash_block_tokens"}),
    published=Published(
        url="https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon",
        licence="Apache-2.0",
        attribution="Alibaba Qwen-Bailian usage traces",
    ),
)
