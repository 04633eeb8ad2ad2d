"""Recordings of a server, made by the recording scheduler class: a folder, not a file.

`added` has a row for each request that the scheduler was given, `ended` one for each that it let
go of. A request that was aborted, failed or was still alive leaves at that time, and would have
gone on: its cap stands for the length that nobody knows. Keyed prefix ids are numbered from 0.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schedbench.errors import UsageError
from schedbench.workloads.files import faults
from schedbench.workloads.importers.options import ImportOptions
from schedbench.workloads.place import Place, counted
from schedbench.workloads.schema import BY_NAME
from schedbench.workloads.trace import Trace

MANIFEST = "manifest.json"
NAME = "recording"
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ends:
    """What is known of each added request's end; arrays over those rows."""

    known: npt.NDArray[np.bool_]
    end_ns: Integers
    output_tokens: Integers
    reason: npt.NDArray[Any]
    table: pa.Table  # rows of `ended`, one for each added request; any one where none is known


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Whether the path is the folder of a recording."""
    folder = Path(path)
    return (folder / "added").is_dir() and "recording" in (_manifest_of(folder) or {})


def refuse_what_is_none(path: str | os.PathLike[str], *, is_asked: bool) -> None:
    """Say of a folder, and of whatever is read as a recording by name, why it is no recording.

    Raises:
        TraceError: a folder that is none, with the recordings in it; a file, where `is_asked`.
    """
    folder = Path(path)
    if told := _written_here(folder):
        found, remedy = told
        raise Place(str(folder)).refuse_input(found, remedy)
    form = f"a recording is a folder with {MANIFEST} and added/ in it"
    if folder.is_dir():
        inside = sorted(each for each in folder.iterdir() if is_recording(each))
        remedy = f"Name one of the recordings in it, such as {inside[0]}" if inside else ""
        found = f"is a folder and no recording: {form}"
        raise Place(str(folder)).refuse_input(found, remedy or "Name one, or one file in it")
    if is_asked:
        raise Place(str(folder)).refuse_input(f"is no recording: {form}", "Name that folder")


def _written_here(folder: Path) -> tuple[str, str] | None:
    """What a folder of results is, and what to do with it; None for any other."""
    is_run = (folder / "passes").is_dir()
    about = _manifest_of(folder) if is_run else _json_of(folder / "sweep.json")
    if about is None:
        return None
    path = (about.get("trace") or {}).get("path")
    again = f", or name its trace, {path}, to replay that again" if path else ""
    if is_run:
        return "is a run, no trace", f"`schedbench explain {folder}` says why it went so{again}"
    return (
        "is a sweep or a search, no trace",
        f"`schedbench report {folder}` makes a page of it{again}",
    )


def _manifest_of(folder: Path) -> dict[str, Any] | None:
    return _json_of(folder / MANIFEST)


def _json_of(path: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def import_recording(path: str | os.PathLike[str], options: ImportOptions) -> Trace:
    """The trace of a recording, complete or not.

    Raises TraceError for one without requests, UsageError for options that have no effect on it.
    """
    if unfit := options.changed().keys() - {"limit"}:
        flag = min(unfit).replace("_", "-")
        raise UsageError(f"--{flag} has no effect on a recording; leave it out")
    folder = Path(path)
    place = Place(str(folder))
    with faults(place):
        return _imported(folder, place, options)


def _imported(folder: Path, place: Place, options: ImportOptions) -> Trace:
    manifest = _manifest_of(folder) or {}
    added, ended = _parts(folder / "added"), _parts(folder / "ended")
    if added is None:
        found = "holds no requests yet"
        raise place.refuse_input(found, "Files close after SCHEDBENCH_RECORD_PART_SECONDS")
    if options.limit is not None:
        added = added.slice(0, options.limit)
    recording = manifest["recording"]
    origin_ns = pc.min(added.column("arrival_ns")).as_py()
    ends = _ends_of(added, ended, _last_ns(folder, added, recording))
    table, hashes = _table(added, ends, origin_ns)
    epoch_ns = recording.get("epoch_ns")
    notes = _notes(added, ends, recording)
    return Trace(
        table=table,
        hash_block_tokens=recording["hash_block_tokens"] if hashes else None,
        epoch_ns=None if epoch_ns is None else epoch_ns + origin_ns,
        provenance={
            "format": NAME,
            "files": [{"name": folder.name}],
            "options": options.changed(),
            "rows_read": added.num_rows,
            "dropped": {},
            "changed": {},
            "clock": {"unit": "ns", "origin_ns": origin_ns},
            "tick": None,
            "inferred": [],
            "transforms": [],
            "notes": [f"{counted(added.num_rows, 'request')}; times nanoseconds", *notes],
        },
        path=str(folder),
    )


def _parts(folder: Path) -> pa.Table | None:
    paths = sorted(folder.glob("part-*.parquet"))
    tables = [pq.read_table(path, partitioning=None) for path in paths]
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _last_ns(folder: Path, added: pa.Table, recording: dict[str, Any]) -> int:
    """The last time that the recording knows of."""
    passes = _parts(folder / "passes")
    times = [recording["last_ns"], pc.max(added.column("added_ns")).as_py()]
    if passes is not None:
        times.append(pc.max(passes.column("start_ns")).as_py())
    return int(max(times))


def _ends_of(added: pa.Table, ended: pa.Table | None, last_ns: int) -> Ends:
    rows = added.column("row").to_numpy()
    if ended is None:
        none = np.zeros(len(rows), np.int64)
        reasons = np.full(len(rows), "unfinished", dtype=object)
        return Ends(none > 0, none + last_ns + 1, none, reasons, added.select([]))
    ended = ended.sort_by("row")
    of_ended = ended.column("row").to_numpy()
    at = np.minimum(np.searchsorted(of_ended, rows), len(of_ended) - 1)
    known = of_ended[at] == rows
    table = ended.take(pa.array(at))
    end_ns = np.where(known, table.column("end_ns").to_numpy(), last_ns + 1)
    output = np.where(known, table.column("output_tokens").to_numpy(), 0)
    reasons = np.asarray(table.column("reason").cast(pa.string()).to_pylist(), dtype=object)
    return Ends(known, end_ns, output, np.where(known, reasons, "unfinished"), table)


def _table(added: pa.Table, ends: Ends, origin_ns: int) -> tuple[pa.Table, bool]:
    """The trace's columns, and whether there are prefix ids."""
    arrivals = added.column("arrival_ns").to_numpy()
    served = (ends.reason == "stop") | (ends.reason == "length")
    caps = added.column("max_tokens").to_numpy()
    # One that ended at the longest sequence would have gone on to its cap, as in vLLM.
    output = np.where(ends.reason == "stop", np.maximum(ends.output_tokens, 1), caps)
    leaves = pa.array(ends.end_ns - arrivals, pa.int64(), mask=served)
    columns: dict[str, Any] = {
        "arrival_ns": pa.array(arrivals - origin_ns),
        "prompt_tokens": added.column("prompt_tokens"),
        "output_tokens": pa.array(output, pa.int32()),
        "added_ns": pa.array(added.column("added_ns").to_numpy() - origin_ns),
        "max_tokens": added.column("max_tokens"),
        "priority": _unless_all(added.column("priority"), 0),
        "client": _unless_all(added.column("client"), 0),
        "lora": added.column("lora"),
        "abort_after_ns": leaves,
        "request_id": added.column("request_id"),
    }
    has_ids = added.column("hash_ids").null_count < added.num_rows
    if has_ids:
        columns |= _numbered(added.column("hash_ids"), _output_ids(ends, added.num_rows))
    if ends.known.any():
        columns["observed"] = _observed(ends, arrivals, served)
    used = {name: each for name, each in columns.items() if each.null_count < len(each)}
    return pa.table(used), has_ids


def _unless_all(column: pa.ChunkedArray, usual: int) -> pa.ChunkedArray:
    """Nulls in place of a column that says the usual thing throughout."""
    if pc.all(pc.equal(column, usual)).as_py():
        return pa.chunked_array([pa.nulls(len(column), column.type)])
    return column


def _output_ids(ends: Ends, rows: int) -> pa.Array:
    if "hash_ids" not in ends.table.column_names:
        return pa.nulls(rows, BY_NAME["output_hash_ids"].type)
    return pc.if_else(pa.array(ends.known), ends.table.column("hash_ids"), None).combine_chunks()


def _numbered(prompt: pa.ChunkedArray, output: pa.Array) -> dict[str, pa.Array]:
    """Prompt and output ids, numbered together by first appearance."""
    first, later = prompt.combine_chunks(), output
    if isinstance(later, pa.ChunkedArray):
        later = pa.concat_arrays(later.chunks)
    ids = np.concatenate([each.flatten().to_numpy() for each in (first, later)])
    distinct, places, coded = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(distinct), np.uint64)
    rank[np.argsort(places, kind="stable")] = np.arange(len(distinct), dtype=np.uint64)
    numbers = rank[coded]
    split = len(first.flatten())
    return {
        "hash_ids": _with_items(first, numbers[:split]),
        "output_hash_ids": _with_items(later, numbers[split:]),
    }


def _with_items(lists: pa.ListArray, items: npt.NDArray[np.uint64]) -> pa.ListArray:
    """The same lists with other items; null stays null."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    missing = lists.is_null()
    made = pa.ListArray.from_arrays(pa.array(offsets), pa.array(items), mask=missing)
    return made.cast(BY_NAME["hash_ids"].type)


def _observed(ends: Ends, arrivals: Integers, served: npt.NDArray[np.bool_]) -> pa.StructArray:
    arrow = BY_NAME["observed"].type
    known = pa.array(ends.known)
    first = pc.subtract(ends.table.column("first_token_ns"), pa.array(arrivals))
    fields = [
        pc.if_else(known, first, None),
        pa.chunked_array([pa.array(ends.end_ns - arrivals, pa.int64(), mask=~served)]),
        pc.if_else(known, ends.table.column("cached_tokens"), None),
    ]
    arrays = [pa.concat_arrays(each.chunks) for each in fields]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow))


def _notes(added: pa.Table, ends: Ends, recording: dict[str, Any]) -> list[str]:
    """What the trace cannot say of the server's traffic, for people."""
    notes = []
    for reason, told in (
        ("abort", "requests aborted, which leave when they did"),
        ("error", "requests that failed, which leave when they did"),
        ("unfinished", "requests alive when the recording ended, which leave then"),
    ):
        if number := int((ends.reason == reason).sum()):
            notes.append(f"{told}: {number:,}")
    last = added.column("row")[-1].as_py() + 1
    if missing := last - added.num_rows:
        notes.append(f"requests missing, since the recorder's queue was full: {missing:,}")
    notes += [f"{what}: {number:,}" for what, number in recording.get("not_in_trace", {}).items()]
    return notes
