import io
import re
import sys

import pytest

from schedbench.cli import console
from schedbench.cli.progress import LiveLine, ReplayProgress, clock_time
from schedbench.cli.sweep_live import SweepProgress
from schedbench.runner.run import replay
from schedbench.runner.sweep import Plan, run_sweep
from schedbench.workloads.trace import Trace


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def long() -> Trace:
    """One request, and more passes than there are between two calls of a progress."""
    return Trace.from_columns({"arrival_ns": [0], "prompt_tokens": [9], "output_tokens": [1200]})


def test_a_terminal_sees_how_far_it_is_and_the_line_is_gone_at_the_end(
    long: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with ReplayProgress(1) as progress:
        replay(long, progress=progress)
    text = terminal.getvalue()
    for word in ("simulated 0:0", "passes/s", "running", "waiting", "KV", "%"):
        assert word in text
    assert text.endswith("\r\x1b[2K")


def test_nothing_is_shown_where_lines_cannot_be_rewritten(
    long: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with ReplayProgress(1) as progress:
        replay(long, progress=progress)
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3725, "1:02:05")]
)
def test_times_are_written_as_a_clock_shows_them(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text


def test_a_sweep_tells_what_is_done_running_and_left_and_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = Trace.from_columns({"arrival_ns": [0], "prompt_tokens": [9], "output_tokens": [5]})
    plan = Plan({"max_num_seqs": [0, 1, 2, 4, 8, 16]})
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with SweepProgress(plan, workers=2) as progress:
        outcomes = run_sweep(trace, plan, workers=1)
        for _ in range(3):
            progress.add(next(outcomes))
        status = progress.status()
    assert status.startswith("3 of 6 done in 0:00, 2 running, 1 left, about 0:0")
    assert re.search(r"; best TTFT p99 so far [\d.]+ .?s: max_num_seqs=1$", status)
    for word in ("TTFT p99", "binding limit", "refused", "3 of 6 done"):
        assert word in terminal.getvalue()


def test_a_log_gets_a_line_after_ten_seconds_and_then_one_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And none where --quiet was given."""
    now = [0.0]
    console.be_quiet(False)
    line = LiveLine(is_live=False, clock=lambda: now[0])
    for second in range(140):
        now[0] = second
        line.show(f"{second}  of 140")
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["note: 10 of 140", "note: 70 of 140", "note: 130 of 140"]
    console.be_quiet(True)
    quiet = LiveLine(is_live=False, clock=lambda: now[0])
    console.be_quiet(False)
    now[0] = 1000.0
    quiet.show("late")
    assert capsys.readouterr().err == ""
