"""Files that a report writes: whole or not at all, and never over another unless told so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from schedbench.errors import OutputError
from schedbench.results.files import writing


def check_free(path: Path, *, force: bool) -> None:
    """Before any work is done. Raises OutputError if the file may not be written."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise OutputError(f"{path} is there already; give --force to write over it")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name once it is complete. Raises OutputError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                yield file
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
