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
KNOWN = ("DIR", "PART_ROWS", "PART_SECONDS", "QUEUE", "MAX_MB", "REQUEST_IDS")


@dataclass(frozen=True)
class RecordingSettings:
    """What the variables say.

    Attributes:
        folder: where recordings go, one new folder each (`SCHEDBENCH_RECORD_DIR`).
        part_rows: rows after which a file is closed (`..._PART_ROWS`).
        part_seconds: seconds after which it is closed, however short (`..._PART_SECONDS`).
        queue: messages that wait for the writer at most, two a pass; beyond that they are dropped
            and counted (`..._QUEUE`).
        max_bytes: of all files together, after which the recording ends; 0 means no limit
            (`..._MAX_MB`, in millions of bytes).
        request_ids: keep the server's request ids, which a client may have chosen
            (`..._REQUEST_IDS`).
    """

    folder: Path = Path("recordings")
    part_rows: int = 65536
    part_seconds: int = 60
    queue: int = 4096
    max_bytes: int = 0
    request_ids: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raises UsageError for a value that cannot be, or a variable that does not exist."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in environment.items()
            if name.startswith(PREFIX)
        }
        if unknown := sorted(given.keys() - set(KNOWN)):
            names = ", ".join(PREFIX + name for name in KNOWN)
            raise UsageError(f"{PREFIX}{unknown[0]}: there is no such setting; there are {names}")
        return cls(
            folder=Path(given.get("DIR", cls.folder)),
            part_rows=_whole(given, "PART_ROWS", cls.part_rows, least=1),
            part_seconds=_whole(given, "PART_SECONDS", cls.part_seconds, least=1),
            queue=_whole(given, "QUEUE", cls.queue, least=16),
            max_bytes=_whole(given, "MAX_MB", cls.max_bytes, least=0) * 1_000_000,
            request_ids=bool(_whole(given, "REQUEST_IDS", 0, least=0, most=1)),
        )


def _whole(
    given: Mapping[str, str], name: str, default: int, *, least: int, most: int | None = None
) -> int:
    text = given.get(name, str(default))
    wanted = f"a whole number of at least {least}" if most is None else f"{least} or {most}"
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{PREFIX}{name}={text}: it is not {wanted}; correct it or unset it")
    value = int(text)
    if value < least or (most is not None and value > most):
        raise UsageError(f"{PREFIX}{name}={text}: it is not {wanted}; correct it or unset it")
    return value
