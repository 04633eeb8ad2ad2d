"""What leaves the engine, written as JSON Lines: outputs by client, and events by request."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import orjson

from schedbench.errors import OutputError, UsageError
from schedbench.sched.return_path import ReturnPath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schedbench.sched.output import EngineCoreOutputs
    from schedbench.sched.return_path import ClientOutputs, EngineCoreOutput


class OutputsFile:
    """Writes `--outputs` and `--request-events`; either may be left out. A context manager.

    A line of outputs is one client's share of one pass, a line of events one event of a request.

    Raises:
        OutputError: a file exists already or cannot be written.
        UsageError: both are the same file.
    """

    def __init__(self, outputs: Path | None, events: Path | None) -> None:
        if outputs is not None and events is not None and outputs.resolve() == events.resolve():
            raise UsageError(
                f"--outputs and --request-events both name {outputs}: they are two files, give "
                "each its own"
            )
        self._outputs = _create(outputs)
        self._events = _create(events)
        self.return_path = ReturnPath(include_finished_set=True)

    @classmethod
    @contextmanager
    def of(cls, outputs: Path | None, events: Path | None) -> Iterator[Self | None]:
        """Open the files for as long as they are written; None where neither is asked for."""
        if outputs is None and events is None:
            yield None
            return
        files = cls(outputs, events)
        try:
            yield files
        finally:
            for file in (files._outputs, files._events):
                if file is not None:
                    file.close()

    def write(self, index: int, outputs: EngineCoreOutputs) -> None:
        """Write what left the engine after pass `index`."""
        for client, share in sorted((outputs.by_client or {}).items()):
            if self._outputs is not None:
                self._outputs.write(_line({"pass": index, "client": client, **_share(share)}))
            if self._events is not None:
                for output in share.outputs:
                    self._write_events(self._events, output)

    def _write_events(self, file: BinaryIO, output: EngineCoreOutput) -> None:
        for event in output.events:
            line = {"request": output.request_id, "type": event.type, "at_ns": event.timestamp_ns}
            file.write(_line(line))


def _share(share: ClientOutputs) -> dict[str, Any]:
    found: dict[str, Any] = {
        "outputs": [
            {
                "request": output.request_id,
                "new_tokens": output.num_new_tokens,
                "finish_reason": output.finish_reason,
            }
            for output in share.outputs
        ]
    }
    if share.finished_requests is not None:
        found["finished_requests"] = sorted(share.finished_requests)
    if share.scheduler_stats is not None:
        found["stats"] = share.scheduler_stats
    return found


def _line(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)


def _create(path: Path | None) -> BinaryIO | None:
    if path is None:
        return None
    try:
        return path.open("xb")
    except FileExistsError as error:
        raise OutputError(f"{path} exists already; name a new file") from error
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error
