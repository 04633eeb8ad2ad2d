"""Columns of Arrow tables as numpy arrays, and sums that cannot overflow."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NO_LABEL: Final = -1
PART_ROWS: Final = 2**20  # of long columns, looked at one after the other
_LOW_BITS: Final = 32
_MOST: Final = 2**63 // PART_ROWS - 1  # of which a part's sum is below 2**63
_LEAST: Final = -_MOST


def ints(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers that holds no null."""
    return np.asarray(table.column(name).to_numpy(), dtype=np.int64)


def narrow(table: pa.Table, name: str) -> npt.NDArray[np.signedinteger[Any]]:
    """The same, as wide as the column is: of a long one, half as much to hold."""
    return np.asarray(table.column(name).to_numpy())


def known(table: pa.Table, name: str, among: Mask) -> Ints:
    """The values of a column that are not null, of the rows in `among`."""
    return np.asarray(table.column(name).filter(pa.array(among)).drop_null(), dtype=np.int64)


def is_known(table: pa.Table, name: str) -> Mask:
    return np.asarray(pc.is_valid(table.column(name)), dtype=np.bool_)


def codes(table: pa.Table, name: str) -> tuple[npt.NDArray[np.int32], list[str]]:
    """A column of labels: each row's place in the list of labels, NO_LABEL for a null."""
    column = table.column(name).unify_dictionaries().combine_chunks()
    indices = np.asarray(pc.fill_null(column.indices, NO_LABEL), dtype=np.int32)
    return indices, column.dictionary.to_pylist()


def is_label(table: pa.Table, name: str, *wanted: str) -> Mask:
    """The rows whose label is one of `wanted`."""
    indices, labels = codes(table, name)
    return np.isin(indices, [labels.index(label) for label in wanted if label in labels])


def parts_of(length: int) -> Iterator[slice]:
    """Where the parts of a long column lie."""
    return (slice(first, first + PART_ROWS) for first in range(0, length, PART_ROWS))


def total(values: npt.NDArray[np.signedinteger[Any]], counts: Ints | None = None) -> int:
    """The exact sum of `values`, each taken `counts` times, also beyond 64 bits.

    Exact while the counts add up to less than 2**31.
    """
    parts = parts_of(len(values))
    return sum(_total(values[p], None if counts is None else counts[p]) for p in parts)


def _total(values: npt.NDArray[np.signedinteger[Any]], counts: Ints | None) -> int:
    if counts is None and len(values) and _LEAST <= values.min() <= values.max() <= _MOST:
        return int(values.sum())
    values = values.astype(np.int64, copy=False)
    high, low = values >> _LOW_BITS, values & ((1 << _LOW_BITS) - 1)
    if counts is None:
        return (int(high.sum()) << _LOW_BITS) + int(low.sum())
    return (int(high @ counts) << _LOW_BITS) + int(low @ counts)


def weighted_mean(values: npt.NDArray[Any], weights: Ints) -> float | None:
    """`sum(value * weight) / sum(weight)`; None where nothing weighs anything."""
    return weighted_mean_of(lambda part: values[part], weights)


def weighted_mean_of(values_in: Callable[[slice], npt.NDArray[Any]], weights: Ints) -> float | None:
    """The same, of values that are worked out a part at a time."""
    weight = total(weights)
    if not weight:
        return None
    parts = parts_of(len(weights))
    return float(sum((values_in(p) * weights[p].astype(np.float64)).sum() for p in parts) / weight)


def tallied(values: Ints, counts: Ints | None) -> tuple[Ints, Ints | None]:
    """Each value once, in any order, with how often it occurs, where that is much less to hold.

    It is found out a part at a time: a run of ten million passes knows some thousand durations.
    """
    found, often = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for part in parts_of(len(values)):
        distinct, number = _tally(values[part], None if counts is None else counts[part])
        if 2 * len(distinct) > min(len(values), PART_ROWS):
            return values, counts
        both = np.concatenate((found, distinct)), np.concatenate((often, number))
        found, often = _tally(*both) if part.start else both
    return found, often


def _tally(values: Ints, counts: Ints | None) -> tuple[Ints, Ints]:
    """Each value once, as they come, and its counts; exact while these add up to below 2**53."""
    encoded = pa.array(values).dictionary_encode()
    often = np.bincount(encoded.indices, counts, len(encoded.dictionary))
    return np.asarray(encoded.dictionary), often.astype(np.int64)


def ratio(part: float, whole: float) -> float | None:
    """`part / whole`; None where there is no whole."""
    return part / whole if whole else None


def largest(values: npt.NDArray[np.signedinteger[Any]]) -> int | None:
    return int(values.max()) if values.size else None
