"""Columns of whole numbers as text that a page can hold: small, exact, quick to read back.

    values -> differences to the one before -> zigzag (a small number whatever its sign)
           -> planes of bytes, the lowest first -> deflate -> base64

`unpack.js` goes the other way; the browser inflates by itself.
"""

import base64
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from schedbench.results.arrays import Ints

EXACT_BELOW: Final = 2**53
"""What a number of JavaScript holds exactly; 104 days in nanoseconds."""

_LEVEL: Final = 6


def packed(columns: Mapping[str, Ints]) -> dict[str, Any]:
    """Columns of equal length as one JSON object: rows, names with widths in bytes, data."""
    planes = {name: _planes(values) for name, values in columns.items()}
    data = b"".join(each.tobytes() for each in planes.values())
    return {
        "rows": len(next(iter(columns.values()))) if columns else 0,
        "columns": [[name, len(each)] for name, each in planes.items()],
        "data": base64.b64encode(zlib.compress(data, _LEVEL)).decode(),
    }


def _planes(values: Ints) -> npt.NDArray[np.uint8]:
    """One row a byte, as many as the largest step needs; none for a column of zeros."""
    steps = np.diff(values, prepend=0)
    zigzag = ((steps << 1) ^ (steps >> 63)).astype("<u8")
    largest = int(zigzag.max()) if zigzag.size else 0
    if largest >= EXACT_BELOW:
        raise OverflowError(f"a step of {largest >> 1} is more than a browser counts exactly")
    width = (largest.bit_length() + 7) // 8
    return np.ascontiguousarray(zigzag.view(np.uint8).reshape(-1, 8).T[:width])
