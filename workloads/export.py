"""A trace in the form of `vllm bench serve --dataset-name timed_trace`: the same traffic, for real.

That benchmark makes each prompt of `input_length` tokens by laying one chunk end to end for each
of `hash_ids`, and stops when they run out; so every row gets an id for every block here, and
blocks that the trace knows no id for get one that nobody shares.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schedbench.errors import OutputError
from schedbench.workloads.arrays import ragged, required
from schedbench.workloads.json_form import json_lines
from schedbench.workloads.trace import Trace

_CARRIED = {"arrival_ns", "prompt_tokens", "output_tokens", "hash_ids", "source_row"}
_BLOCK_WITHOUT_IDS = 512
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Exported:
    """`command` replays the file; `left_out` are columns that the form has no place for."""

    command: str
    left_out: tuple[str, ...]


def export_timed_trace(trace: Trace, path: str | os.PathLike[str]) -> Exported:
    """Write the file; times are seconds. Raises OutputError when it cannot be written."""
    block = trace.hash_block_tokens
    block = _BLOCK_WITHOUT_IDS if block is None else block
    table = pa.table(
        {
            "timestamp": required(trace.table, "arrival_ns") / _NS_PER_S,
            "input_length": required(trace.table, "prompt_tokens"),
            "output_length": required(trace.table, "output_tokens"),
            "hash_ids": _whole_cover(trace, block),
        }
    )
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.writelines(json_lines(table))
        part.replace(target)
    except OSError as error:
        raise OutputError(f"{target}: cannot write the export: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    left_out = tuple(name for name in trace.table.column_names if name not in _CARRIED)
    return Exported(_command(target, trace.num_requests, block), left_out)


def _command(path: Path, requests: int, block: int) -> str:
    """Without --self-timed the timestamps would be ignored; 16 is the default chunk size."""
    return (
        f"vllm bench serve --dataset-name timed_trace --dataset-path {shlex.quote(str(path))} "
        f"--num-prompts {requests} --no-oversample --disable-shuffle --self-timed "
        f"--timed-trace-sec-multiplier 1 --timed-trace-chunk-hash-size {block} --ignore-eos"
    )


def _whole_cover(trace: Trace, block: int) -> pa.Array:
    """One id for every block, partial tails too: the trace's, counted from 0, or fresh ones."""
    needed = -(-required(trace.table, "prompt_tokens").astype(np.int64) // block)
    offsets = np.concatenate(([0], np.cumsum(needed)))
    ids, given = np.empty(0, np.int64), np.zeros(len(needed), np.int64)
    if trace.has("hash_ids"):
        id_offsets, items = ragged(trace.table.column("hash_ids"))
        given = np.diff(id_offsets)
        _, ids = np.unique(items.to_numpy(), return_inverse=True)
    row = np.repeat(np.arange(len(needed)), needed)
    within = np.arange(int(offsets[-1])) - offsets[row]
    is_given = within < given[row]
    values = _filled(is_given, ids)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def _filled(is_given: npt.NDArray[np.bool_], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    values = np.empty(is_given.size, np.int64)
    values[is_given] = ids
    first_fresh = int(ids.max()) + 1 if ids.size else 0
    values[~is_given] = first_fresh + np.arange(int((~is_given).sum()))
    return values
