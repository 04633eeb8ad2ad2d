"""Real times of passes, one row a pass, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from schedbench.results.row_buffer import Log
    from schedbench.runner.api import PassResult

MOST_ENTRIES = 2048


class TimingRows:
    """The timings' rows on their way to `log`; a run of passes shares its time evenly."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._entries: list[tuple[int, int, int]] = []  # first pass, passes, ns in each
        self._measured: list[tuple[int | None, int | None, str | None]] = []

    def add(
        self, first: int, num_passes: int, scheduler_ns: int, result: PassResult | None = None
    ) -> None:
        """Add passes; `scheduler_ns` is spent in each."""
        self._entries.append((first, num_passes, scheduler_ns))
        if result is None:
            self._measured.append((None, None, None))
        else:
            self._measured.append((result.device_ns, result.host_ns, result.graph))
        if len(self._entries) >= MOST_ENTRIES:
            self.flush()

    def flush(self) -> None:
        if not self._entries:
            return
        first, sizes, spent = np.asarray(self._entries, np.int64).T
        run = np.repeat(np.arange(len(sizes)), sizes)
        before = np.cumsum(sizes) - sizes
        step = np.arange(len(run)) - before[run]
        device, host, graph = zip(*self._measured, strict=True)
        self._log.extend_columns(
            len(run),
            [
                first[run] + step,
                spent[run],
                _repeated(device, run, pa.int64()),
                _repeated(host, run, pa.int64()),
                _repeated(graph, run, pa.string()),
            ],
        )
        self._entries, self._measured = [], []


def _repeated(values: tuple[object, ...], run: np.ndarray, kind: pa.DataType) -> object:
    if all(value is None for value in values):
        return None
    return pa.array(values, kind).take(pa.array(run))
