"""Runs of equal passes, expanded into rows of the pass log many at a time.

A run is its first row, how many passes it has, and what grows by how much; a single pass is a run
of one. Every few thousand of them are turned into columns at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schedbench.results.columns import Column
from schedbench.results.row_buffer import Log, Row

Integers = npt.NDArray[np.int64]

MOST_RUNS: Final = 2048
MOST_ROWS: Final = 65536


@dataclass(slots=True)
class Growth:
    """What changes from pass to pass of a run, and in its last pass alone.

    `opens[i]` blocks are taken in pass i and `opens[i + 1]` become full, i modulo their number and
    counted from `phase`. The free blocks without a hash are taken first. `num_free`, `num_bare` and
    `num_cached` are the blocks before the first of those passes is scheduled. With `ahead` that is
    the second pass of the run: the first was in flight, and its row has its own blocks. What
    becomes full is then seen by the schedule that opens the next block.
    """

    num_decodes: int
    durations_ns: int | Integers
    opens: Sequence[int]
    phase: int
    num_free: int
    num_bare: int
    num_cached: int
    caches: bool
    finished: int
    freed_finish: int
    ahead: bool = False  # with a pass in flight
    gaps_ns: int | Integers | None = None  # from start to start; None: as long as the passes


class RunRows:
    """The pass log's rows, single or in runs, on their way to `log`. As a log it takes tuples."""

    def __init__(self, log: Log, columns: Sequence[Column]) -> None:
        self._log = log
        self._places = {column.name: place for place, column in enumerate(columns)}
        self._labels = [
            place for place, column in enumerate(columns) if pa.types.is_dictionary(column.type)
        ]
        self._rows: list[Row] = []
        self._sizes: list[int] = []
        self._growths: list[tuple[int, Growth]] = []  # by place in `_rows`
        self._num_pending = 0

    @property
    def rows(self) -> int:
        return self._log.rows + self._num_pending

    def append(self, row: Row) -> None:
        self._add(row, 1)

    def append_run(self, row: Row, num_passes: int, growth: Growth) -> None:
        """Add passes of which `row` is the first, had nothing grown yet."""
        self._growths.append((len(self._rows), growth))
        self._add(row, num_passes)

    def close(self) -> None:
        self.flush()
        self._log.close()

    def flush(self) -> None:
        """Expand what is pending, and pass it on."""
        if not self._rows:
            return
        sizes = np.asarray(self._sizes, np.int64)
        expansion = Expansion(sizes)
        columns = [
            self._column(place, values, expansion)
            for place, values in enumerate(zip(*self._rows, strict=True))
        ]
        if self._growths:
            self._grow(columns, expansion)
        self._log.extend_columns(int(sizes.sum()), columns)
        self._rows, self._sizes, self._growths, self._num_pending = [], [], [], 0

    def _add(self, row: Row, num_passes: int) -> None:
        self._rows.append(row)
        self._sizes.append(num_passes)
        self._num_pending += num_passes
        if len(self._rows) >= MOST_RUNS or self._num_pending >= MOST_ROWS:
            self.flush()

    def _column(self, place: int, values: tuple[Any, ...], expansion: "Expansion") -> Any:  # noqa: ANN401 - an array of either kind
        if place == self._places["victims"]:
            return expansion.of_lists(values)
        if place in self._labels:
            return expansion.of_labels(values)
        if None in values:
            return pa.array(values).take(pa.array(expansion.run))
        dtype = np.uint64 if place == self._places["decisions"] else np.int64
        return np.asarray(values, dtype)[expansion.run]

    def _grow(self, columns: list[Any], expansion: "Expansion") -> None:
        """Let the columns of runs grow, and move what happens once to the pass it happens in."""
        places, run, step = self._places, expansion.run, expansion.step
        grown = _Grown(expansion, self._growths)
        columns[places["pass"]] += step
        columns[places["context_tokens"]] += grown.per_run("num_decodes")[run] * step
        durations = columns[places["duration_ns"]]
        grown.fill_durations(durations)
        gaps = durations.copy()
        grown.fill_gaps(gaps)
        columns[places["start_ns"]] += expansion.sum_before(gaps)
        since_first = expansion.sum_through(durations) - durations[expansion.first][run]
        columns[places["end_ns"]] += since_first
        for name in ("aborted", "kv_blocks_freed_preempt", "kv_blocks_freed_finish"):
            columns[places[name]] *= step == 0
        for name, field in (("finished", "finished"), ("kv_blocks_freed_finish", "freed_finish")):
            columns[places[name]] += grown.at_last(field)
        grown.fill_blocks(
            columns[places["kv_blocks_used"]],
            columns[places["kv_blocks_free"]],
            columns[places["kv_blocks_cached"]],
        )


class Expansion:
    """Which run each row belongs to (`run`), and its place in it (`step`)."""

    def __init__(self, sizes: Integers) -> None:
        self.sizes = sizes
        self.first = np.cumsum(sizes) - sizes
        self.run = np.repeat(np.arange(len(sizes)), sizes)
        self.step = np.arange(len(self.run)) - self.first[self.run]

    def of_labels(self, values: tuple[str | None, ...]) -> pa.Array:
        if None in values:
            return pa.array(values, pa.string()).take(pa.array(self.run)).dictionary_encode()
        numbers: dict[str | None, int] = {}
        codes = [numbers.setdefault(value, len(numbers)) for value in values]
        indices = np.asarray(codes, np.int32)[self.run]
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbers), pa.string()))

    def of_lists(self, values: tuple[Sequence[int], ...]) -> pa.Array:
        """Lists stand in rows of their own; a run has none."""
        lengths = np.fromiter(map(len, values), np.int64, len(values))[self.run]
        flat = [each for value in values for each in value]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(flat, pa.int64()))

    def each(self, values: Integers) -> Integers:
        """A value by run for each row."""
        return np.repeat(values, self.sizes)

    def at_last(self, values: Integers) -> Integers:
        """Each run's value in its last row, 0 elsewhere."""
        placed = np.zeros(len(self.run), values.dtype)
        placed[self.first + self.sizes - 1] = values
        return placed

    def sum_before(self, values: Integers) -> Integers:
        """Sum of a run's values before each row."""
        before: Integers = np.cumsum(values) - values
        within: Integers = before - before[self.first][self.run]
        return within

    def sum_through(self, values: Integers) -> Integers:
        """Sum of a run's values up to each row."""
        return self.sum_before(values) + values


class _Grown:
    """The growths of a batch as columns; rows of single passes are left alone."""

    def __init__(self, expansion: Expansion, growths: list[tuple[int, Growth]]) -> None:
        self._expansion = expansion
        self._growths = growths
        self._runs = np.fromiter((place for place, _ in growths), np.int64, len(growths))
        self._rows = np.flatnonzero(np.isin(expansion.run, self._runs))
        self._number = np.zeros(len(expansion.sizes), np.int64)
        self._number[self._runs] = np.arange(len(growths))

    def per_run(self, field: str) -> Integers:
        """A field's value by run; 0 for single passes."""
        values = np.zeros(len(self._expansion.sizes), np.int64)
        values[self._runs] = [getattr(growth, field) for _, growth in self._growths]
        return values

    def at_last(self, field: str) -> Integers:
        """A field's value in each run's last row, 0 elsewhere."""
        return self._expansion.at_last(self.per_run(field))

    def fill_durations(self, durations: Integers) -> None:
        first, sizes = self._expansion.first, self._expansion.sizes
        for place, growth in self._growths:
            if not isinstance(growth.durations_ns, int):
                durations[first[place] : first[place] + sizes[place]] = growth.durations_ns

    def fill_gaps(self, gaps: Integers) -> None:
        first, sizes = self._expansion.first, self._expansion.sizes
        for place, growth in self._growths:
            if growth.gaps_ns is not None:
                gaps[first[place] : first[place] + sizes[place]] = growth.gaps_ns

    def fill_blocks(self, used: Integers, free: Integers, cached: Integers) -> None:
        """Blocks at the end of each schedule, from what was opened and hashed up to it."""
        expansion = self._expansion
        ahead = self.per_run("ahead")
        rows = self._rows[expansion.step[self._rows] >= ahead[expansion.run[self._rows]]]
        run = expansion.run[rows]
        opens = np.asarray([growth.opens for _, growth in self._growths], np.int64)
        number = self._number[run]
        at = self.per_run("phase")[run] + expansion.step[rows] - ahead[run]
        size = opens.shape[1]
        opened = np.zeros(len(expansion.run), np.int64)
        opened[rows] = opens[number, at % size]
        full = np.zeros(len(expansion.run), np.int64)
        full_at = (at + 1 - ahead[run]) % size
        full[rows] = opens[number, full_at] * self.per_run("caches")[run]
        opened = expansion.sum_through(opened)[rows]
        full = expansion.sum_through(full)[rows]
        free_now = self.per_run("num_free")[run] - opened
        used[rows] += free[rows] - free_now
        free[rows] = free_now
        taken_hashed = np.maximum(opened - self.per_run("num_bare")[run], 0)
        cached[rows] = self.per_run("num_cached")[run] + full - taken_hashed
