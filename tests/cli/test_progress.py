import io
import sys

import pytest

from schedbench.cli.progress import ReplayProgress, clock_time
from schedbench.runner.run import replay
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
