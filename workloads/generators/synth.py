"""A synthetic trace from a Workload: in memory, or written to a file part by part."""

import hashlib
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schedbench.errors import OutputError
from schedbench.workloads.generators.columns import ids_per_row, to_table
from schedbench.workloads.generators.prefixes import plant
from schedbench.workloads.generators.session_block import Rows
from schedbench.workloads.generators.sessions import rows_in_order
from schedbench.workloads.generators.workload import Workload
from schedbench.workloads.json_form import json_lines
from schedbench.workloads.metadata import Metadata
from schedbench.workloads.parquet_form import write_options
from schedbench.workloads.schema import META_HASH_BLOCK
from schedbench.workloads.trace import Trace

_MOST_IDS = 4_000_000  # in one part: 32 MB of ids, about 200 MB while they are made and digested


def synth(work: Workload) -> Trace:
    """The workload's trace. The same workload gives the same digest on every machine."""
    table = pa.concat_tables(_parts(work))
    block = work.hash_block_tokens if work.shares_prefixes else None
    return Trace(table, block, None, work.provenance())


def synth_to_file(work: Workload, path: str | os.PathLike[str]) -> str:
    """Write the trace that `synth` would make as Parquet, and return its digest.

    Memory is bounded by one part and the sessions open at a time, not by the number of requests.
    The file gets its name only when it is complete. Raises OutputError when it can't be written.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        digest = _write_parts(work, part)
        part.replace(target)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"{target}: cannot write the trace: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return digest


def _parts(work: Workload) -> Iterator[pa.Table]:
    prefixes = plant(work.prefixes, work.seed, work.hash_block_tokens)
    for rows in rows_in_order(work, prefixes):
        for piece in _pieces(rows, work):
            yield to_table(piece, work, prefixes)


def _pieces(rows: Rows, work: Workload) -> list[Rows]:
    full_parts = np.cumsum(ids_per_row(rows, work)) // _MOST_IDS
    return np.split(rows, np.flatnonzero(np.diff(full_parts)) + 1)


def _write_parts(work: Workload, path: Path) -> str:
    """One row group a part. The digest is known only at the end, so it goes to the footer then."""
    block = work.hash_block_tokens if work.shares_prefixes else None
    running = hashlib.sha256(b"" if block is None else _line({META_HASH_BLOCK: block}))
    parts = _parts(work)
    first = next(parts)
    with pq.ParquetWriter(path, first.schema, **write_options(first.schema)) as writer:
        for part in chain([first], parts):
            writer.write_table(part)
            for lines in json_lines(part):
                running.update(lines)
        digest = f"sha256:{running.hexdigest()}"
        about = Metadata(hash_block_tokens=block, provenance=work.provenance())
        writer.add_key_value_metadata(about.to_parquet(digest))
    return digest


def _line(value: dict[str, int]) -> bytes:
    return orjson.dumps(value) + b"\n"
