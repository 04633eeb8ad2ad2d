"""The one exception tree.

    SchedbenchError                exit code 2 unless said otherwise
    ├── UsageError                 a flag, or a combination of flags, that cannot be
    ├── TraceError                 an input that breaks a rule; names row, column, rule, remedy
    ├── UnsupportedError           something of vLLM that is not modelled here, refused by name
    ├── RunStoreError              a run folder that is missing, incomplete or of another trace
    ├── OutputError                a result that could not be written (exit code 4)
    ├── StallError                 no request can ever be scheduled again (exit code 3)
    │   └── EngineEndsError        vLLM's own engine ends with an error there (exit code 5)
    └── InvariantError             a fault of this project: a numbered invariant does not hold

Library code raises these; `cli/` is the only place that prints them and picks the exit code.
"""


class SchedbenchError(Exception):
    """Base of all errors meant for people: the message names input, rule and remedy."""

    exit_code = 2


class UsageError(SchedbenchError):
    """A flag, or a combination of flags, that cannot be."""


class TraceError(SchedbenchError):
    """An input that breaks a rule of the trace format."""


class UnsupportedError(SchedbenchError):
    """Something of vLLM that is not modelled here."""


class RunStoreError(SchedbenchError):
    """A run folder that is missing, incomplete or of another trace."""


class OutputError(SchedbenchError):
    """A result that could not be written."""

    exit_code = 4


class StallError(SchedbenchError):
    """No request can ever be scheduled again."""

    exit_code = 3


class EngineEndsError(StallError):
    """The engine of vLLM ends with an error here; `ending` is its name in sched/endings.py."""

    exit_code = 5

    def __init__(self, message: str, ending: str = "") -> None:
        super().__init__(message)
        self.ending = ending

    def told_with(self, more: str) -> "EngineEndsError":
        """The same ending, with more words."""
        return EngineEndsError(f"{self}{more}", self.ending)


class InvariantError(SchedbenchError):
    """A numbered invariant does not hold: a fault of this project."""
