"""The modes of `schedbench verify`, and the one rule of their options: each has its own.

An option of another mode would do nothing, so it is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedbench.cli.command import options_of
from schedbench.cli.flags import Flags
from schedbench.cli.options import Load, Window
from schedbench.cli.reading import Reading
from schedbench.cli.serving import Serving
from schedbench.errors import UsageError

UNREAD = frozenset({"slo", "warmup"})
"""Of the options about load, those that judge latencies: no comparison does."""


@dataclass(frozen=True)
class Mode:
    """One way to compare: how it is asked for, the parameters it reads, and what it goes by."""

    command: str
    reads: frozenset[str]
    goes_by: str
    files: str | None = None  # what has to be named


GOLDEN = Mode(
    "verify --golden",
    frozenset({"golden", "files", "skip_unsupported", "json"}),
    "each log brings its own requests, flags and release",
    "golden logs, or folders of them: schedbench verify --golden tests/golden",
)
RECORD = Mode(
    "verify --record",
    frozenset({"record", "files"}),
    "each log brings its own requests and flags, and vLLM is the installed one",
    "golden logs whose scenarios are run: schedbench verify --record DIR tests/golden",
)
RANDOM = Mode(
    "verify --fuzz",
    frozenset({"fuzz", "seed", "features", "failing", "vllm_version", "behaviours"}),
    "each case draws its own requests and flags",
)
TRACE = Mode(
    "verify TRACE",
    frozenset({"files", "speedup"})
    | {each.name for group in (Window, Load, Serving, Reading, Flags) for each in options_of(group)}
    - UNREAD,
    "both classes schedule the same trace, pass by pass",
)
MODES = (RANDOM, RECORD, GOLDEN, TRACE)


def mode_of(given: Mapping[str, Any], spelled: Mapping[str, str]) -> Mode:
    """The mode that a command line asks for.

    Args:
        given: values of the parameters that were typed, by name.
        spelled: the option of each, as a message names it.

    Raises:
        UsageError: an option that this mode does not read, or no file where it takes some.
    """
    asked = (("fuzz", RANDOM), ("record", RECORD), ("golden", GOLDEN))
    mode = next((found for name, found in asked if name in given), TRACE)
    for name in given:
        if name not in mode.reads:
            raise UsageError(_refusal(name, spelled[name], mode))
    if mode.files and not given.get("files"):
        raise UsageError(f"{mode.command} compares nothing without a file; name {mode.files}")
    return mode


def _refusal(name: str, option: str, mode: Mode) -> str:
    readers = ", ".join(each.command for each in MODES if name in each.reads)
    of = f"it is of {readers}" if readers else "no comparison reads it"
    return f"{option} does nothing in {mode.command}, where {mode.goes_by}; {of}. Leave it out"
