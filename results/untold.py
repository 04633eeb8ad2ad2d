"""Runs whose passes vLLM's own class made: what it does not tell is null in their tables."""

from collections.abc import Sequence
from typing import Final

from schedbench.errors import RunStoreError
from schedbench.results.columns import Column
from schedbench.results.pass_log import BY_VLLM, PASS_COLUMNS
from schedbench.results.row_buffer import Log, Row
from schedbench.results.stored_run import StoredRun

REAL_CLASS: Final = "vllm"
"""The word for vLLM's own class where a scheduler is named."""

UNTOLD: Final = tuple(column.name for column in PASS_COLUMNS if column.null_when == BY_VLLM)
"""Columns of the pass log that the class does not tell."""


class UntoldLog:
    """Passes rows on to `log` with nulls in the columns that vLLM's class does not tell."""

    def __init__(self, log: Log, columns: Sequence[Column]) -> None:
        self._log = log
        self._told = [column.null_when != BY_VLLM for column in columns]

    @property
    def rows(self) -> int:
        return self._log.rows

    def append(self, row: Row) -> None:
        told = zip(row, self._told, strict=True)
        self._log.append(tuple(value if is_told else None for value, is_told in told))

    def extend_columns(self, rows: int, values: Sequence[object]) -> None:
        told = zip(values, self._told, strict=True)
        self._log.extend_columns(rows, [value if is_told else None for value, is_told in told])

    def close(self) -> None:
        self._log.close()


def refuse_untold(run: StoredRun, wants: str) -> None:
    """Raise RunStoreError if a run does not tell verdicts; `wants` is about them."""
    if run.manifest.get("engine") == REAL_CLASS:
        raise RunStoreError(
            f"{run.path} was made by vLLM's own class, which does not say why it decides as it "
            f"does, and {wants} is about that. Replay the same without --scheduler {REAL_CLASS}: "
            "the decisions are the same, which `schedbench compare` shows"
        )
