"""What the command-line tests share with their fixtures."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


class Cli(Protocol):
    """Runs `schedbench WORD...` in this process."""

    def __call__(self, *words: object, debug: bool = False) -> Ran: ...


class Program(Protocol):
    """Runs `schedbench WORD...` in a process of its own, with more environment variables."""

    def __call__(self, *words: object, **env: str) -> Ran: ...
