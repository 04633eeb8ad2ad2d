"""What a profile says, in a few lines."""

from __future__ import annotations

import io
import pstats
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cProfile

TOP_LINES = 14


def top_lines(source: cProfile.Profile | str) -> str:
    """The lines in which most time is spent, callees left out; of a profile or a file of one."""
    text = io.StringIO()
    stats = pstats.Stats(source, stream=text).strip_dirs().sort_stats("tottime")
    stats.print_stats(TOP_LINES)
    lines = text.getvalue().splitlines()
    total = next(line for line in lines if "function calls" in line)
    first = next(number for number, line in enumerate(lines) if "tottime" in line)
    return "\n".join(line.rstrip() for line in (total, *lines[first:]) if line.strip())
