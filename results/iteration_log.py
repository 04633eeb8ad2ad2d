"""Passes that vLLM logs with `--enable-logging-iteration-details`, as a run for `compare`.

    INFO 07-31 14:15:03 [loggers.py:198] Engine 000: Iteration(7): 1 context requests, 512 context
    tokens, 30 generation requests, 30 generation tokens, iteration elapsed time: 21.37 ms, GPU KV
    cache usage: 4.2%

(on one line). 0.33.0 names the device's kind in place of GPU. The log has what was in a pass and
how long the wait for it was, to 0.01 ms; the time between passes is not in it, so that the run's
clock runs through them one after the other. A request counts as context until its first output
token; one that computes anew after a preemption counts as generation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from schedbench.errors import OutputError, TraceError
from schedbench.results.files import write_json, writing
from schedbench.results.part_writer import PartWriter
from schedbench.results.pass_log import PASS_COLUMNS, SCHEMA_VERSION
from schedbench.results.run_store import MANIFEST

NAME: Final = "vllm-iterations"
TOLD: Final = (
    "pass",
    "start_ns",
    "duration_ns",
    "end_ns",
    "tokens_scheduled",
    "prefill_tokens",
    "decode_tokens",
    "requests_scheduled",
)
_COLUMNS: Final = tuple(
    column if column.name in TOLD else replace(column, null_when="the log does not tell")
    for column in PASS_COLUMNS
)
_MARK: Final = re.compile(r"(?:Engine (?P<engine>\d+): )?Iteration\((?P<index>\d+)\):")
_LINE: Final = re.compile(
    r"Iteration\(\d+\): (?P<context_requests>\d+) context requests, "
    r"(?P<context_tokens>\d+) context tokens, (?P<generation_requests>\d+) generation requests, "
    r"(?P<generation_tokens>\d+) generation tokens, "
    r"iteration elapsed time: (?P<ms>\d+\.\d+) ms(?P<dummy> \(dummy\))?, "
    r"\S+ KV cache usage: (?P<usage>\d+\.\d+)%"
)
_NS_OF_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Imported:
    """What was read."""

    passes: int
    busy_ns: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Iteration:
    line: int
    engine: int
    index: int
    facts: re.Match[str]


def import_iterations(log: Path, out: Path) -> Imported:
    """Write the run folder `out` from a server's log.

    Raises:
        TraceError: no such lines, or one that does not follow the form; the line is named.
        OutputError: `out` is there already, or cannot be written.
    """
    iterations = _one_engine(log, list(_iterations(log)))
    kept = [each for each in iterations if not each.facts["dummy"]]
    notes = _notes(iterations, kept)
    if not kept:
        raise _refuse(log, "holds dummy iterations only", "Log the engine that serves requests")
    if out.exists():
        raise OutputError(f"{out} is there already, and a run is never written over another")
    with writing(out):
        (out / "passes").mkdir(parents=True)
    writer = PartWriter(out / "passes", _COLUMNS)
    now_ns = 0
    for number, each in enumerate(kept):
        now_ns += _write(writer, number, now_ns, each.facts)
    writer.close()
    write_json(out / MANIFEST, _manifest(log, notes))
    return Imported(len(kept), now_ns, notes)


def _iterations(log: Path) -> Iterator[_Iteration]:
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if (mark := _MARK.search(line)) is None:
                    continue
                if (facts := _LINE.search(line)) is None:
                    found = (
                        f"line {number}: {line[mark.start() :].strip()[:60]!r} is cut or changed"
                    )
                    remedy = "Give the log as vLLM 0.26.0 or 0.33.0 writes it, a message a line"
                    raise _refuse(log, found, remedy)
                engine = int(mark["engine"] or 0)
                yield _Iteration(number, engine, int(mark["index"]), facts)
    except OSError as error:
        raise _refuse(log, f"cannot be read: {error.strerror}", "Check the path") from error


def _one_engine(log: Path, found: list[_Iteration]) -> list[_Iteration]:
    """The iterations, which have to be one engine's, in order, from one start of the server."""
    if not found:
        remedy = "Run vllm serve with --enable-logging-iteration-details and without "
        raise _refuse(log, "has no iteration details", f"{remedy}--disable-log-stats")
    first = found[0]
    for before, each in pairwise(found):
        if each.engine != first.engine:
            what = f"line {each.line}: is of engine {each.engine}, and line {first.line} of engine "
            remedy = (
                f"Import one engine at a time: grep 'Engine {first.engine:03d}' takes its lines"
            )
            raise _refuse(log, f"{what}{first.engine}", remedy)
        if each.index <= before.index:
            what = f"line {each.line}: iteration {each.index} comes after {before.index}"
            raise _refuse(log, what, "The server was started again there: cut the log in two")
    return found


def _notes(found: list[_Iteration], kept: list[_Iteration]) -> tuple[str, ...]:
    notes = []
    if dummies := len(found) - len(kept):
        notes.append(f"dummy iterations of a data-parallel engine, left out: {dummies:,}")
    if missing := found[-1].index - found[0].index + 1 - len(found):
        notes.append(f"iterations missing between the first and the last line: {missing:,}")
    return tuple(notes)


def _write(writer: PartWriter, number: int, now_ns: int, facts: re.Match[str]) -> int:
    """A row, with nulls for what the log does not tell; how long the pass took, in ns."""
    duration_ns = int(Decimal(facts["ms"]) * _NS_OF_MS)
    context, generation = int(facts["context_tokens"]), int(facts["generation_tokens"])
    values: dict[str, object] = {
        "pass": number,
        "start_ns": now_ns,
        "duration_ns": duration_ns,
        "end_ns": now_ns + duration_ns,
        "tokens_scheduled": context + generation,
        "prefill_tokens": context,
        "decode_tokens": generation,
        "requests_scheduled": int(facts["context_requests"]) + int(facts["generation_requests"]),
    }
    writer.append(tuple(values.get(column.name) for column in _COLUMNS))
    return duration_ns


def _manifest(log: Path, notes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "complete": True,
        "trace": {"path": None, "digest": ""},
        "scheduler": {},
        "time": {"description": f"iterations logged in {log.name}", "source": "recorded"},
        "recording": {
            "format": NAME,
            "log": log.name,
            "notes": list(notes),
            "not_replayable": "its passes come from a log that does not say who was in them",
        },
    }


def _refuse(log: Path, found: str, remedy: str) -> TraceError:
    return TraceError(f"{log}: {found}. {remedy}.")
