"""What both halves of the fuzzer hand over: one command line, and the files it names."""

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Case:
    """`kind` groups cases for the counts; `about` says how this one was made."""

    kind: str
    words: tuple[str, ...]
    about: str = ""
    files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"{shlex.join(self.words)}  # {self.kind}: {self.about}"
