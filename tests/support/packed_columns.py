"""Reads packed columns as `unpack.js` does, in as few words."""

import base64
import zlib
from typing import Any


def unpacked(found: dict[str, Any]) -> dict[str, list[int]]:
    """Values by column."""
    data, rows, offset = zlib.decompress(base64.b64decode(found["data"])), found["rows"], 0
    columns = {}
    for name, width in found["columns"]:
        value, values = 0, []
        for row in range(rows):
            zigzag = sum(data[offset + byte * rows + row] << 8 * byte for byte in range(width))
            value += -(zigzag + 1) // 2 if zigzag % 2 else zigzag // 2
            values.append(value)
        columns[name] = values
        offset += rows * width
    return columns
