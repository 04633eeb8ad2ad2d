"""Tables keep every row in order, however it came, and survive a kill."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.errors import InvariantError, OutputError
from schedbench.results.columns import label, nanoseconds, number
from schedbench.results.memory_log import MemoryLog
from schedbench.results.part_writer import PART_GLOB, PartWriter

COLUMNS = (number("pass", "index"), label("stop", "verdict", "none"), nanoseconds("gap_ns", "gap"))


def read(folder: Path) -> pa.Table:
    parts = sorted(folder.glob(PART_GLOB))
    return pa.concat_tables([pq.read_table(part) for part in parts])


def a_row(index: int) -> tuple[int, str | None, int]:
    return index, (None, "budget_spent", f"stop{index % 7}")[index % 3], index << 33


@given(chunks=st.lists(st.tuples(st.booleans(), st.sampled_from([1, 2, 300])), max_size=8))
def test_rows_and_chunks_of_columns_keep_their_order_and_values(
    chunks: list[tuple[bool, int]],
) -> None:
    log = MemoryLog(COLUMNS)
    expected: list[tuple[int, str | None, int]] = []
    for in_columns, rows in chunks:
        first = len(expected)
        if in_columns:
            index = np.arange(first, first + rows)
            log.extend_columns(rows, (index, "list_done", index << 33))
            expected += [(i, "list_done", i << 33) for i in range(first, first + rows)]
        else:
            for i in range(first, first + rows):
                log.append(a_row(i))
            expected += [a_row(i) for i in range(first, first + rows)]
    rows_back = [tuple(row.values()) for row in log.table().to_pylist()]
    assert rows_back == expected
    assert log.rows == len(expected)


@pytest.mark.parametrize("rows", [0, 1, 10, 11, 25])
def test_parts_hold_the_same_rows_as_memory(tmp_path: Path, rows: int) -> None:
    parts, memory = PartWriter(tmp_path, COLUMNS, rows_per_part=10), MemoryLog(COLUMNS)
    for log in (parts, memory):
        for index in range(rows):
            log.append(a_row(index))
        log.close()
    assert read(tmp_path).to_pylist() == memory.table().to_pylist()
    assert len(list(tmp_path.glob(PART_GLOB))) == max(1, -(-rows // 10))


KILLED = """
import os, signal, sys
from pathlib import Path
from schedbench.results.columns import number
from schedbench.results.part_writer import PART_GLOB, PartWriter
folder = Path(sys.argv[1])
writer = PartWriter(folder, (number("pass", "index"),), rows_per_part=100)
for index in range(1_000_000):
    writer.append((index,))
    if index == 1050:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_loses_at_most_the_parts_in_hand(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    kept = read(tmp_path).column("pass").to_pylist()
    assert kept == list(range(len(kept)))
    assert len(kept) in (900, 1000)


def test_a_failure_of_the_writing_thread_surfaces_with_path_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq, "write_table", full)
    writer = PartWriter(tmp_path, COLUMNS, rows_per_part=10)
    for index in range(10):
        writer.append(a_row(index))
    with pytest.raises(OutputError, match=r"part-000000.*No space left on device.*--out"):
        writer.close()


def test_a_null_where_none_can_be_is_a_fault_of_the_caller() -> None:
    log = MemoryLog(COLUMNS)
    log.append((None, None, 0))
    with pytest.raises(InvariantError, match="pass"):
        log.close()
