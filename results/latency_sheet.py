"""The latencies of a run, or of one group of its requests, as a sheet."""

from collections.abc import Mapping
from typing import Any, Final

from schedbench.results.sheet import Cell, Heading, Mark, Sheet
from schedbench.results.spread import SPREAD_KEYS
from schedbench.results.units import duration, number, time_scale

_LATENCIES: Final = {
    "ttft_ns": "TTFT",
    "queue_ns": "queue",
    "tpot_ns": "TPOT",
    "itl_ns": "ITL",
    "e2e_ns": "E2E",
}
_POINTS: Final = SPREAD_KEYS[1:]


def latency_sheet(summary: Mapping[str, Any]) -> Sheet:
    """A row a latency, in one unit each; how many it is over, and how many it is not."""
    headings = (
        Heading("latency", is_number=False),
        *map(Heading, ("n", "unfin.", "abort.")),
        *map(Heading, _POINTS),
    )
    left_out = [number(summary[f"requests_{how}"]) for how in ("unfinished", "aborted")]
    rows = []
    for key, name in _LATENCIES.items():
        spread = summary[key]
        scale = time_scale([spread["p50"]])
        points = [Cell(scale.text(spread[point])) for point in _POINTS]
        counts = [Cell(number(spread["n"])), *(Cell(text, mark=Mark.QUIET) for text in left_out)]
        rows.append((Cell(f"{name} {scale.unit}"), *counts, *points))
    return Sheet("", headings, tuple(rows), _warmup_note(summary))


def _warmup_note(summary: Mapping[str, Any]) -> str:
    if not summary["warmup_ns"]:
        return ""
    left_out = number(summary["requests_in_warmup"])
    return f"warm-up of {duration(summary['warmup_ns'])}: {left_out} requests left out of latencies"
