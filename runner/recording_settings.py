"""How a recording is made, from environment variables: vLLM hands a scheduler class no options."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from schedbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "SCHEDBENCH_RECORD_"
KNOWN = {
    "DIR": ("recordings", "where recordings go, a new folder each"),
    "PART_ROWS": ("65536", "rows after which a file is closed"),
    "PART_SECONDS": ("60", "seconds after which it is closed, however short: a crash loses these"),
    "QUEUE": (
        "4096",
        "messages that wait for the writer at most, two a pass; more are dropped and counted",
    ),
    "MAX_MB": ("0", "millions of bytes after which the recording ends; 0 means no limit"),
    "REQUEST_IDS": ("0", "1 keeps the server's request ids, which a client may have chosen"),
}
"""Each setting with its default and what it is."""


@dataclass(frozen=True)
class RecordingSettings:
    """What the variables say; KNOWN describes them."""

    folder: Path
    part_rows: int
    part_seconds: int
    queue: int
    max_bytes: int
    request_ids: bool

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raises UsageError for a value that cannot be, or a variable that does not exist."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in environment.items()
            if name.startswith(PREFIX)
        }
        if unknown := sorted(given.keys() - KNOWN.keys()):
            names = ", ".join(PREFIX + name for name in KNOWN)
            raise UsageError(f"{PREFIX}{unknown[0]}: there is no such setting; there are {names}")
        return cls(
            folder=Path(given.get("DIR", KNOWN["DIR"][0])),
            part_rows=_whole(given, "PART_ROWS", least=1),
            part_seconds=_whole(given, "PART_SECONDS", least=1),
            queue=_whole(given, "QUEUE", least=16),
            max_bytes=_whole(given, "MAX_MB", least=0) * 1_000_000,
            request_ids=bool(_whole(given, "REQUEST_IDS", least=0, most=1)),
        )


def _whole(given: Mapping[str, str], name: str, *, least: int, most: int | None = None) -> int:
    text = given.get(name, KNOWN[name][0])
    wanted = f"a whole number of at least {least}" if most is None else f"{least} or {most}"
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{PREFIX}{name}={text}: it is not {wanted}; correct it or unset it")
    value = int(text)
    if value < least or (most is not None and value > most):
        raise UsageError(f"{PREFIX}{name}={text}: it is not {wanted}; correct it or unset it")
    return value
