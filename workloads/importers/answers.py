"""Ids of generated blocks, inferred from a later turn whose prompt holds the answer.

row p   |-- prompt --|-- answer --|            blocks that the answer completes: 2 and 3
ids      0    1    2*                          (2* is the partial tail of the prompt)
row c   |-- prompt of p, answer, new input --| `after` = p
ids      0    1    2    3    4                 so p's `output_hash_ids` are c's 2 and 3
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import ragged, required
from schedbench.workloads.importers.columns_of import with_columns
from schedbench.workloads.importers.report import Report
from schedbench.workloads.importers.sessions import in_sessions
from schedbench.workloads.schema import BY_NAME

Rows = npt.NDArray[np.int64]


def with_answer_ids(table: pa.Table, block: int | None, report: Report) -> pa.Table:
    """The same for the rows of every importer; ids that a source states are left as they are.

    A row follows the one it names as `after`, else the turn before it in its session. Of a row's
    followers the first counts whose prompt begins with the row's full blocks.
    """
    has_ids = "hash_ids" in table.column_names and "output_hash_ids" not in table.column_names
    if block is None or not has_ids or not {"after", "session"} & set(table.column_names):
        return table
    previous = _previous(table)
    followers = np.flatnonzero(previous >= 0)
    parents = previous[followers]
    offsets, items = ragged(table.column("hash_ids"))
    ids = items.to_numpy()
    prompts = required(table, "prompt_tokens").astype(np.int64)
    full = prompts // block
    total = (prompts + required(table, "output_tokens")) // block
    first = full[parents]
    last = np.minimum(total[parents], np.minimum(full, np.diff(offsets))[followers])
    usable = (first > 0) & (first < last) & (np.diff(offsets)[parents] >= first)
    followers, parents, first, last = (x[usable] for x in (followers, parents, first, last))
    same_prefix = ids[offsets[parents] + first - 1] == ids[offsets[followers] + first - 1]
    followers, parents, first, last = (x[same_prefix] for x in (followers, parents, first, last))
    parents, once = np.unique(parents, return_index=True)
    if not parents.size:
        return table
    starts = (offsets[followers] + first)[once]
    counts = np.zeros(table.num_rows, np.int64)
    counts[parents] = (last - first)[once]
    report.infer(
        "output_hash_ids",
        f"block ids of {parents.size:,} answers were inferred from the turns that follow them",
    )
    return with_columns(table, output_hash_ids=_slices(ids, starts, counts))


def _previous(table: pa.Table) -> Rows:
    """The row that each row goes on from; -1 for none."""
    rows = np.full(table.num_rows, -1)
    if "session" in table.column_names:
        rows = in_sessions(table.column("session")).previous
    if "after" in table.column_names:
        after = pc.fill_null(table.column("after"), -1).to_numpy()
        rows = np.where(after >= 0, after, rows)
    return rows


def _slices(ids: npt.NDArray[np.uint64], starts: Rows, counts: Rows) -> pa.Array:
    """Lists of `counts` ids, beginning at `starts` where that is not 0; the others are null."""
    lengths = counts[counts > 0]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    within = np.arange(int(offsets[-1])) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    items = pa.array(ids[np.repeat(starts, lengths) + within])
    mask = pa.array(counts == 0)
    arrow = BY_NAME["output_hash_ids"].type
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, arrow, mask=mask)
