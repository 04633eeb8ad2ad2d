"""Generated rows -> columns of the trace schema."""

import numpy as np
import pyarrow as pa

from schedbench.workloads.generators.draws import Ints
from schedbench.workloads.generators.prefixes import PrefixBlocks
from schedbench.workloads.generators.session_block import NO_ROW, Rows
from schedbench.workloads.generators.workload import Workload
from schedbench.workloads.schema import BY_NAME, COLUMNS


def to_table(rows: Rows, work: Workload, prefixes: PrefixBlocks) -> pa.Table:
    """The same columns for every part of one workload, also where a part leaves one empty."""
    arrays = {
        "arrival_ns": pa.array(rows["arrival"]),
        "prompt_tokens": pa.array(rows["prompt"]),
        "output_tokens": pa.array(rows["output"]),
    }
    if work.shares_prefixes:
        arrays["hash_ids"] = _prompt_ids(rows, work.hash_block_tokens, prefixes)
    if work.sessions is not None:
        no_turn_before = rows["after"] == NO_ROW
        arrays["output_hash_ids"] = _answer_ids(rows, work.hash_block_tokens, prefixes)
        arrays["session"] = pa.array(rows["session"])
        arrays["turn"] = pa.array(rows["turn"])
        arrays["after"] = pa.array(rows["after"], mask=no_turn_before)
        arrays["think_ns"] = pa.array(rows["think"], mask=no_turn_before)
    if work.priority is not None:
        arrays["priority"] = pa.array(rows["priority"])
    if work.client is not None:
        arrays["client"] = pa.array(rows["client"])
    if work.lora is not None:
        arrays["lora"] = pa.array(rows["lora"], mask=rows["lora"] == 0)
    typed = {c.name: arrays[c.name].cast(c.type) for c in COLUMNS if c.name in arrays}
    return pa.table(typed)


def ids_per_row(rows: Rows, work: Workload) -> Ints:
    """Upper bound on a row's ids, to cut rows into parts of bounded size."""
    if not work.shares_prefixes:
        return np.zeros(rows.size, dtype=np.int64)
    return np.asarray((rows["prompt"] + rows["output"]) // work.hash_block_tokens + 1)


def _prompt_ids(rows: Rows, block: int, prefixes: PrefixBlocks) -> pa.Array:
    """Whole blocks only: a partial tail's text changes as the session grows."""
    first = np.zeros(rows.size, dtype=np.int64)
    return _lists("hash_ids", rows, first, rows["prompt"] // block, prefixes)


def _answer_ids(rows: Rows, block: int, prefixes: PrefixBlocks) -> pa.Array:
    first = rows["prompt"] // block
    count = (rows["prompt"] + rows["output"]) // block - first
    return _lists("output_hash_ids", rows, first, count, prefixes)


def _lists(name: str, rows: Rows, first: Ints, count: Ints, prefixes: PrefixBlocks) -> pa.Array:
    ids = prefixes.ids_at(rows["leaf"], rows["own_first"], first, count)
    offsets = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, ids.astype(np.uint64), type=BY_NAME[name].type)
