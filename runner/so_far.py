"""How far a replay is, for whoever watches it."""

from __future__ import annotations

from typing import NamedTuple


class SoFar(NamedTuple):
    """How far a replay is: the simulated clock, and counts of passes, requests and blocks."""

    now_ns: int
    num_passes: int
    num_finished: int
    num_live: int
    num_running: int
    num_waiting: int
    num_free_blocks: int
