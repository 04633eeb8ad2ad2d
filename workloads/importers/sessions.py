"""Sessions of a trace whose rows are in order: numbers, turns, and the row before each."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schedbench.workloads.arrays import one_array
from schedbench.workloads.importers.columns_of import nullable

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sessions:
    """Arrays over rows; -1 where a row belongs to no session, or opens one (`previous`)."""

    number: Rows
    turn: Rows
    previous: Rows

    def columns(self) -> dict[str, pa.Array]:
        return {"session": nullable(self.number), "turn": nullable(self.turn).cast(pa.int32())}


def in_sessions(labels: pa.ChunkedArray) -> Sessions:
    """Number labels by first appearance; null belongs to no session."""
    coded = one_array(labels.dictionary_encode())
    number: Rows = pc.fill_null(coded.indices, -1).to_numpy().astype(np.int64)
    order = np.argsort(number, kind="stable")
    order = order[number[order] >= 0]
    turn, previous = np.full(len(number), -1), np.full(len(number), -1)
    if order.size:
        opens = np.concatenate(([True], np.diff(number[order]) != 0))
        starts = np.flatnonzero(opens)
        turn[order] = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
        previous[order[1:]] = np.where(opens[1:], -1, order[:-1])
    return Sessions(number, turn, previous)
