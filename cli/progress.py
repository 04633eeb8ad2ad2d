"""The line that shows a replay at work: rewritten in place on a terminal, then removed.

Where stderr is no terminal, a line of its own now and then, so that a log shows a long replay live.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from schedbench.cli import console
from schedbench.results.visible import visible

if TYPE_CHECKING:
    from schedbench.runner.replay import Replay
    from schedbench.runner.so_far import SoFar

_INTERVAL_S = 0.1
_FIRST_S, _EVERY_S = 10.0, 60.0  # of lines in a log
_ETA_FROM = 0.005  # of the work: before that a guess is noise
_ERASE = "\r\x1b[2K"


@dataclass
class LiveLine:
    """One line on stderr that is written over; in a log, one after 10 s and then one a minute."""

    is_live: bool = field(default_factory=lambda: console.is_live(sys.stderr))

    clock: Callable[[], float] = time.monotonic
    _due: float | None = None

    def __post_init__(self) -> None:
        self._due = None if console.is_quiet() else self.clock() + _FIRST_S

    @property
    def is_wanted(self) -> bool:
        """Whether a text would be shown now."""
        return self.is_live or (self._due is not None and self.clock() >= self._due)

    def show(self, text: str) -> None:
        if not self.is_live and self.is_wanted:
            self._due = self.clock() + _EVERY_S
            console.note(" ".join(text.split()))
            sys.stderr.flush()
        if self.is_live:
            sys.stderr.write(_ERASE + visible(text, kept="")[: _width()])
            sys.stderr.flush()

    def clear(self) -> None:
        if self.is_live:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()


@dataclass
class ReplayProgress:
    """Follows one replay of `num_requests` requests; called by it every few hundred passes."""

    num_requests: int
    by_arrivals: bool = True
    line: LiveLine = field(default_factory=LiveLine)
    _began: float = field(default_factory=time.monotonic)
    _shown: float = 0.0
    _passes: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.line.clear()

    def __call__(self, replay: "Replay") -> None:
        now = time.monotonic()
        if not self.line.is_wanted or now - self._shown < _INTERVAL_S:
            return
        so_far = replay.so_far()
        since = now - (self._shown or self._began)
        rate = (so_far.num_passes - self._passes) / since if since else 0.0
        self._shown, self._passes = now, so_far.num_passes
        usable = replay.scheduler.config.usable_blocks
        self.line.show(self.text(so_far, usable, rate, now - self._began))

    def text(
        self, so_far: "SoFar", usable_blocks: int, passes_per_s: float, elapsed_s: float
    ) -> str:
        """What the line says."""
        used = (usable_blocks - so_far.num_free_blocks) / usable_blocks if usable_blocks else 0.0
        share = self._share(so_far)
        return (
            f"{share:4.0%}  simulated {clock_time(so_far.now_ns / 1e9)}  "
            f"{passes_per_s:,.0f} passes/s  running {so_far.num_running}  "
            f"waiting {so_far.num_waiting}  KV {used:.0%}  {_eta(share, elapsed_s)}"
        )

    def _share(self, so_far: "SoFar") -> float:
        """Of the requests, how many have come; or, if all come at once, how many have gone."""
        done = so_far.num_finished
        if self.by_arrivals:
            done += so_far.num_live
        return min(done / self.num_requests, 1.0)


def _eta(share: float, elapsed_s: float) -> str:
    if share < _ETA_FROM:
        return ""
    if share >= 1.0:
        return "last ones"
    return f"ETA {clock_time(elapsed_s * (1 - share) / share)}"


def clock_time(seconds: float) -> str:
    """3:04:05, or 4:05 below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns - 1
