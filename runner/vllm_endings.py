"""What the class of an installed vLLM raises, as the ending it is (sched/endings.py)."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from schedbench.errors import UnsupportedError
from schedbench.sched.endings import Ending, ends_release

if TYPE_CHECKING:
    from collections.abc import Iterator


class Mark(NamedTuple):
    """How an ending is known: the innermost function of vLLM, and a name its failing line has."""

    ending: Ending
    function: str
    name: str


MARKS = (
    Mark(Ending.LORA_SLOTS, "schedule", "max_loras"),
    Mark(Ending.RESET_FAILED, "reset_prefix_cache", "RuntimeError"),
    Mark(Ending.QUEUED_TWICE, "schedule", "Invalid request status"),
    Mark(Ending.EMPTY_ADMISSION, "schedule", "num_new_tokens > 0"),
    Mark(Ending.CUT_PADDING, "schedule", "1 + self.num_spec_tokens"),
    Mark(Ending.NEGATIVE_GRANT, "update_from_output", "num_tokens_scheduled"),
    Mark(Ending.NEGATIVE_PLACEHOLDERS, "_update_request_with_output", "num_output_placeholders"),
    Mark(Ending.NEGATIVE_COMPUTED, "_handle_stopped_request", "safe_frontier"),
    Mark(Ending.HIT_BESIDE_BLOCKS, "get_num_blocks_to_allocate", "new_computed_blocks"),
    Mark(Ending.HIT_BESIDE_BLOCKS, "allocate_new_computed_blocks", "req_blocks"),
    Mark(Ending.TRANSFER_UNKNOWN, "_update_from_kv_xfer_finished", "in self.requests"),
    Mark(Ending.INPUT_BEHIND, "_update_request_as_session", "keep_end"),
)


def ending_of(error: Exception) -> Ending | None:
    """The ending that an error of vLLM is; None for one that is not known."""
    frame = _innermost(error)
    if frame is None:
        return None
    for mark in MARKS:
        if mark.function == frame.name and mark.name in (frame.line or ""):
            return mark.ending
    return None


def _innermost(error: Exception) -> traceback.FrameSummary | None:
    """Where in vLLM an error was raised; None if it was not there."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((each for each in reversed(frames) if "/vllm/" in each.filename), None)


@contextmanager
def as_endings(release: str) -> Iterator[None]:
    """Raise what the class of a release raises as the ending that it is.

    Raises:
        EngineEndsError: the class fails in a way that has a name.
        UnsupportedError: it fails in another one.
    """
    try:
        yield
    except Exception as error:
        if ending := ending_of(error):
            raise ends_release(ending, release) from error
        frame = _innermost(error)
        if frame is None:
            raise
        raise UnsupportedError(
            f"the class of vLLM {release} fails here, in {frame.name} (line {frame.lineno}): "
            f"{type(error).__name__}: {error}. Replay without it; --debug shows the traceback"
        ) from error
