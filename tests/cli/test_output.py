from pathlib import Path

import pytest
from cli_runs import Program

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")


@pytest.mark.parametrize("width", ["20", "80", "300"])
def test_a_pipe_gets_no_colour_and_no_cut_column_whatever_the_terminal(
    program: Program, small: Path, width: str
) -> None:
    texts = {
        program("replay", small, *TIGHT, "--no-store", COLUMNS=width).out,
        program("replay", small, *TIGHT, "--no-store", COLUMNS="120").out,
    }
    (text,) = texts
    assert "\x1b" not in text
    assert "…" not in text


def test_a_pipe_gets_no_progress(program: Program, small: Path) -> None:
    ran = program("replay", small, *TIGHT, "--no-store")
    assert "\r" not in ran.err
    assert "passes/s" not in ran.err
    assert "\x1b" not in ran.err
