"""Contestants in turn, and what their figures come to.

Load on a machine comes and goes, so contestants run in turn (A B C, C B A, ...), a ratio is taken
round by round, and everything is told as a median with its least and greatest value.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

Command: TypeAlias = "Sequence[str | Path]"
Figures: TypeAlias = dict[str, Any]  # cpu_s, wall_s, then whatever the contestant counted
TIMES = ("cpu_s", "wall_s", "peak_mib")


def alternate(
    contestants: Mapping[str, Callable[[], Figures]], rounds: int, budget_s: float
) -> dict[str, list[Figures]]:
    """Figures by contestant, a run a round; no round is begun when the budget is spent."""
    runs: dict[str, list[Figures]] = defaultdict(list)
    began = time.monotonic()
    names = list(contestants)
    for number in range(rounds):
        if number and time.monotonic() - began > budget_s:
            break
        for name in names if number % 2 == 0 else reversed(names):
            figures = contestants[name]()
            runs[name].append(figures)
            print(
                f"    {name:<18} cpu {figures['cpu_s']:8.3f} s   wall {figures['wall_s']:8.3f} s",
                file=sys.stderr,
            )
    return dict(runs)


def spread(values: Sequence[float]) -> Figures:
    """Median, least and greatest; the runs themselves in the order they were made."""
    return {
        "median": _short(statistics.median(values)),
        "min": _short(min(values)),
        "max": _short(max(values)),
        "runs": [_short(value) for value in values],
    }


def told(runs: Mapping[str, list[Figures]]) -> Figures:
    """By contestant: times as spreads, and its counts, which are the same in every run."""
    result: Figures = {}
    for name, figures in runs.items():
        times = {key: spread([run[key] for run in figures]) for key in TIMES if key in figures[0]}
        counts = {key: value for key, value in figures[0].items() if key not in TIMES}
        result[name] = {**times, **counts}
    return result


def ratio(runs: Mapping[str, list[Figures]], over: str, under: str) -> Figures:
    """`over` / `under`, round by round, in CPU seconds and by the clock."""
    pairs = list(zip(runs[over], runs[under], strict=True))
    return {key: spread([a[key] / b[key] for a, b in pairs]) for key in ("cpu_s", "wall_s")}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


class Worker:
    """A process that does one job after another, so that start-up is no part of any figure."""

    def __init__(self, command: Command, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def ask(self, **job: Any) -> Figures:  # noqa: ANN401 - whatever JSON can say
        """One job's answer. SystemExit where the worker has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a worker failed at {job}:\n{self._log.read_text()[-3000:]}")
        return dict(json.loads(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def serve(do: Callable[[Figures], Figures]) -> None:
    """A worker's side: jobs as lines of JSON in, answers out. Whatever else is printed: stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(do(json.loads(line))) + "\n")
        answers.flush()


def whole_process(command: Command, log: Path) -> Figures:
    """A command as the operating system accounts for it, children included.

    SystemExit where it fails; `log` has what it printed.
    """
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command], stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nfailed:\n{log.read_text()[-3000:]}")
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": wall_s,
        "peak_mib": usage.ru_maxrss / 1024,
    }
