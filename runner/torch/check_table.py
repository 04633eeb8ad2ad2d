"""The table of the GPU check: a row a question, written to disk as soon as it is answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schedbench.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

Verdict = Literal["passed", "missed", "failed", "skipped", "shown"]
Answer = Callable[[], "CheckRow | list[CheckRow]"]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One answer. `value` must be at most (or at least) `bound`; `floor` is what physics allows.

    A row about correctness that misses its bound has failed, and the check with it; one about
    speed has only missed. Without a bound it is shown.
    """

    id: str
    what: str
    value: float | None
    unit: str
    bound: float | None = None
    at_least: bool = False
    floor: float | None = None
    is_correctness: bool = False
    note: str = ""
    seconds: float = 0.0  # spent on it

    @property
    def verdict(self) -> Verdict:
        if self.value is None:
            return "skipped"
        if self.bound is None:
            return "shown"
        # NaN compares false to everything, and so misses every bound
        holds = self.value >= self.bound if self.at_least else self.value <= self.bound
        return "passed" if holds else "failed" if self.is_correctness else "missed"

    def as_dict(self) -> dict[str, Any]:
        """For the files, with the verdict."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(slots=True)
class CheckTable:
    """Rows in the order of the questions, under a limit of seconds."""

    folder: Path
    limit_s: float
    facts: dict[str, Any] = field(default_factory=dict)  # versions, device, ceilings
    rows: list[CheckRow] = field(default_factory=list)
    say: Callable[[str], None] = print
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be made: {error}") from error

    @property
    def left_s(self) -> float:
        """Seconds before the limit."""
        return self.limit_s - (time.monotonic() - self.began)

    def ask(self, row_id: str, what: str, expected_s: float, answer: Answer) -> list[CheckRow]:
        """Answer one question, or skip it where the time left would not do, or where it fails.

        Whatever goes wrong in one question is written in its row, and the next is asked.
        """
        if self.left_s < expected_s:
            note = f"needs about {expected_s:.0f} s, and {max(self.left_s, 0):.0f} s are left"
            return self._add([CheckRow(row_id, what, None, "", note=note)], 0.0)
        began = time.monotonic()
        try:
            found = answer()
        except Exception as error:  # noqa: BLE001 - a run cut short proves less than a row lost
            note = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            nan = float("nan")
            found = CheckRow(row_id, what, nan, "", bound=0.0, is_correctness=True, note=note)
        rows = found if isinstance(found, list) else [found]
        return self._add(rows, time.monotonic() - began)

    @property
    def has_failed(self) -> bool:
        return any(row.verdict == "failed" for row in self.rows)

    def _add(self, rows: list[CheckRow], seconds: float) -> list[CheckRow]:
        timed = [replace(row, seconds=round(seconds / len(rows), 2)) for row in rows]
        self.rows += timed
        for row in timed:
            self.say(line_of(row))
        self._write()
        return timed

    def _write(self) -> None:
        """Both files anew, each under its name only when it is complete."""
        rows = [row.as_dict() for row in self.rows]
        content = {"facts": self.facts, "rows": rows}
        options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        try:
            part = self.folder / ".check.json.part"
            part.write_bytes(orjson.dumps(content, option=options) + b"\n")
            part.replace(self.folder / "check.json")
            part = self.folder / ".check.parquet.part"
            pq.write_table(pa.Table.from_pylist(rows), part)
            part.replace(self.folder / "check.parquet")
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot write the check: {error}") from error


def line_of(row: CheckRow) -> str:
    """One line for people."""
    sign = ">=" if row.at_least else "<="
    value = "-" if row.value is None else f"{row.value:.4g} {row.unit}"
    bound = f" {sign} {row.bound:.4g}" if row.bound is not None else ""
    floor = f", floor {row.floor:.4g}" if row.floor is not None else ""
    note = f" ({row.note})" if row.note else ""
    return f"{row.id:<5}{row.verdict:<8}{row.what}: {value}{bound}{floor}{note}"
