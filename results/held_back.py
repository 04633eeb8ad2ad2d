"""What held a run back most: a limit that bound passes, or one that set requests aside.

A limit of the pass log is one that ended a loop. Adapters and the encoder's room set a request
aside and let others pass, so that no pass is bound by them however long the requests wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ASIDE: Final = {
    "lora_slots_full_ns": "loras",
    "encoder_set_aside_ns": "encoder_room",
    "read_ahead_set_aside_ns": "encoder_room",
}
"""Limits that set requests aside, by the part of the summary's waits that is theirs."""

_NOTHING: Final = "nothing"
_MOST = 0.5  # of all waiting


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A limit with its share: of the time in passes, or of all waiting where it sets aside."""

    limit: str
    share: float | None
    is_of_waiting: bool = False


def held_back(summary: Mapping[str, Any]) -> HeldBack | None:
    """The limit that held most back; None where there was none.

    One that sets aside comes first where most of all waiting is for it, and that is longer than
    any limit bound passes.
    """
    times = {k: part["ns"] for k, part in summary["binding_limit"].items() if k != _NOTHING}
    bound = max(times, key=lambda each: times[each], default=None)
    waits = waits_aside(summary)
    aside = max(waits, key=lambda each: waits[each], default=None)
    if aside is not None and waits[aside] > (times[bound] if bound else 0):
        share = waits[aside] / sum(summary["waits"].values())
        if share > _MOST:
            return HeldBack(aside, share, is_of_waiting=True)
    if bound is None:
        return None
    return HeldBack(bound, times[bound] / summary["busy_ns"] if summary["busy_ns"] else None)


def waits_aside(summary: Mapping[str, Any]) -> dict[str, int]:
    """Time in the queues, ns over all requests, by the limit that set them aside."""
    found: dict[str, int] = {}
    for name, ns in summary.get("waits", {}).items():
        if ns and name in ASIDE:
            found[ASIDE[name]] = found.get(ASIDE[name], 0) + ns
    return found
