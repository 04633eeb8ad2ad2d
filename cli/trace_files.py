"""Traces in and out of the `trace` commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedbench.cli.options import OUTPUT
from schedbench.errors import OutputError

if TYPE_CHECKING:
    from schedbench.workloads.trace import Trace

_NOT_WRITTEN = {".csv", ".tsv", ".json", ".txt", ".xlsx", ".gz", ".zst", ".feather", ".arrow"}

TraceToRead = Annotated[
    str, typer.Argument(metavar="TRACE", help="A trace of any known format, .gz and .zst included.")
]
FileToWrite = Annotated[
    Path,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE",
        help="The file to write: Parquet, or JSON Lines if its name ends in .jsonl.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True)
class Target:
    """The file that a command writes."""

    file: FileToWrite
    force: Annotated[
        bool,
        typer.Option("--force", help="Write over FILE if it is there.", rich_help_panel=OUTPUT),
    ] = False

    def check(self) -> None:
        """Before any work is done. Raises OutputError if the file is there and may not be lost.

        Also if its name promises a format that is not written.
        """
        if self.file.suffix.lower() in _NOT_WRITTEN:
            raise OutputError(
                f"{self.file}: a trace is written as Parquet, or as JSON Lines to a name that ends "
                f"in .jsonl, and this name says neither; call it {self.file.stem}.parquet"
            )
        if not self.file.parent.is_dir():
            raise OutputError(
                f"{self.file}: there is no folder {self.file.parent}; make it first (mkdir -p)"
            )
        if self.file.exists() and not self.force:
            raise OutputError(f"{self.file} is there already; give --force to write over it")

    def write(self, trace: "Trace") -> None:
        """Raises OutputError if it cannot be written."""
        from schedbench.workloads.store import write_trace

        write_trace(trace, self.file)
