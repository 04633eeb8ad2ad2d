"""What a sweep shows while it runs: on a terminal a table that grows, in a pipe nothing."""

import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from schedbench.cli import console
from schedbench.cli.progress import LiveLine, clock_time

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from schedbench.runner.sweep import Outcome, Plan

_FEWEST_ROWS, _OTHER_LINES = 3, 6


@dataclass
class SweepProgress:
    """The points that ended last, how many run and are left, and the best so far.

    `workers`: replays at a time, where that is known.
    """

    plan: "Plan"
    workers: int | None = None
    _done: list["Outcome"] = field(default_factory=list)
    _live: "Live | None" = None
    _line: LiveLine = field(default_factory=LiveLine)
    _began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Self:
        if console.is_live(sys.stderr):
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True),
                get_renderable=self._shown,
                refresh_per_second=4,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, outcome: "Outcome") -> None:
        """A point has ended."""
        self._done.append(outcome)
        if self._live is None and self._line.is_wanted:
            self._line.show(self.status())

    def _shown(self) -> "RenderableType":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        from schedbench.results.visible import visible

        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in (*self.plan.axes, "TTFT p99", "output tokens/s", "preemptions"):
            table.add_column(Text(heading.replace("_", "-")), justify="right", no_wrap=True)
        table.add_column("binding limit", no_wrap=True)
        for outcome in self._done[-self._rows() :]:
            table.add_row(
                *(Text(visible(each, kept="")) for each in _row(outcome)),
                style="" if outcome.summary else "red",
            )
        return Group(table, Text(), Text(visible(self.status(), kept=""), "bright_black"))

    def _rows(self) -> int:
        from shutil import get_terminal_size

        return max(_FEWEST_ROWS, get_terminal_size().lines - _OTHER_LINES)

    def status(self) -> str:
        """How far it is, in one line."""
        total = 1
        for values in self.plan.axes.values():
            total *= len(values)
        done = len(self._done)
        running = min(self.workers or 0, total - done)
        run = sum(not each.is_reused and each.status != "refused" for each in self._done)
        spent = time.monotonic() - self._began
        counts = [f"{done} of {total} done in {clock_time(spent)}"]
        counts += [f"{running} running"] if running else []
        counts += [f"{total - done - running} left"] if total > done else []
        if run and total > done:
            counts.append(f"about {clock_time(spent / run * (total - done))} more")
        return f"{', '.join(counts)}{self._best()}"

    def _best(self) -> str:
        known = [each for each in self._done if each.summary and each.summary["ttft_ns"]["n"]]
        if not known:
            return ""
        from schedbench.results.units import duration

        best = min(known, key=lambda each: (each.summary or {})["ttft_ns"]["p99"])
        where = " ".join(f"{name}={value}" for name, value in best.point.items())
        return f"; best TTFT p99 so far {duration((best.summary or {})['ttft_ns']['p99'])}: {where}"


def _row(outcome: "Outcome") -> list[str]:
    from schedbench.cli.values import show_value
    from schedbench.results.sweep_sheet import binding_limit
    from schedbench.results.units import duration, number

    flags = [show_value(value) for value in outcome.point.values()]
    found: dict[str, Any] | None = outcome.summary
    if found is None:
        return [*flags, outcome.status]
    return [
        *flags,
        duration(found["ttft_ns"]["p99"]),
        number(found["output_tokens_per_s"]),
        number(found["preempted"]),
        binding_limit(found),
    ]
