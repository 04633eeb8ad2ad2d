"""Columns of Arrow tables as numpy arrays, and sums that cannot overflow."""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NO_LABEL: Final = -1
_BEYOND_64_BITS: Final = 2**63


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


def total(values: npt.NDArray[np.signedinteger[Any]], counts: Ints | None = None) -> int:
    """The exact sum of `values`, each taken `counts` (at least 0) times, also beyond 64 bits.

    Summed at once where that cannot overflow, else each half on its own.
    """
    if not len(values):
        return 0
    most = max(int(values.max()), -int(values.min()))
    if most * (len(values) if counts is None else total(counts)) < _BEYOND_64_BITS:
        return int(values.sum() if counts is None else values.astype(np.int64, copy=False) @ counts)
    if len(values) == 1:
        return int(values[0]) * (1 if counts is None else int(counts[0]))
    halves = slice(None, len(values) // 2), slice(len(values) // 2, None)
    return sum(total(values[half], None if counts is None else counts[half]) for half in halves)


def weighted_mean(values: npt.NDArray[Any], weights: Ints) -> float | None:
    """`sum(value * weight) / sum(weight)`; None where nothing weighs anything."""
    weight = total(weights)
    return float((values * weights.astype(np.float64)).sum() / weight) if weight else None


def tally(values: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Each value once, as they come, and its counts; exact while these add up to below 2**53."""
    encoded = pa.array(values).dictionary_encode()
    often = np.bincount(encoded.indices, counts, len(encoded.dictionary))
    return np.asarray(encoded.dictionary), often.astype(np.int64)


def ratio(part: float, whole: float) -> float | None:
    """`part / whole`; None where there is no whole."""
    return part / whole if whole else None


def largest(values: npt.NDArray[np.signedinteger[Any]]) -> int | None:
    return int(values.max()) if values.size else None
