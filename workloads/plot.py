"""Small plots as lines of text."""

from typing import Any

import numpy as np
import numpy.typing as npt

_LEVELS = " ▁▂▃▄▅▆▇█"
_BAR_TIPS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")

Numbers = npt.NDArray[np.integer[Any]] | npt.NDArray[np.floating[Any]]


def sparkline(values: Numbers, top: float | None = None) -> str:
    """One character a value, from 0 to `top`, or to the largest; blank is exactly 0."""
    if top is None:
        top = float(values.max()) if values.size else 0.0
    if top <= 0.0:
        return _LEVELS[0] * values.size
    eighths = np.ceil(values * ((len(_LEVELS) - 1) / top)).astype(int)
    return "".join(_LEVELS[level] for level in np.clip(eighths, 0, len(_LEVELS) - 1))


def histogram_lines(values: npt.NDArray[np.integer[Any]], width: int = 40) -> list[str]:
    """Counts of positive whole numbers by power of two: `low-high  bar  count`."""
    if not values.size:
        return []
    octave = np.frexp(values.astype(np.float64))[1] - 1  # 2^octave <= value
    first, counts = int(octave.min()), np.bincount(octave - octave.min())
    lows = [2 ** (first + i) for i in range(counts.size)]
    labels = [f"{low:,}-{2 * low - 1:,}" if low > 1 else "1" for low in lows]
    pad = max(map(len, labels))
    bars = [_bar(count / counts.max() * width) for count in counts]
    return [
        f"{label:>{pad}}  {bar:<{width}}  {count:,}"
        for label, bar, count in zip(labels, bars, counts, strict=True)
    ]


def _bar(length: float) -> str:
    """A bar drawn to an eighth of a character; anything above 0 is seen."""
    eighths = int(np.ceil(length * 8))
    return "█" * (eighths // 8) + _BAR_TIPS[eighths % 8]
