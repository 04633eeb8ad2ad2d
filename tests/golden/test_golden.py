"""Passes that vLLM 0.26.0's own class made, one file a scenario; ours have to be the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_runs import replayed

from schedbench.runner.golden_log import first_difference, read_log

LOGS = sorted(Path(__file__).parent.glob("*.jsonl.gz"))
NUM_LOGS, NUM_PASSES = 97, 7268


def _name(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


@pytest.mark.parametrize("path", LOGS, ids=_name)
def test_every_column_of_every_pass_is_as_the_real_class_logged_it(path: Path) -> None:
    log = read_log(path)
    assert log.passes
    assert first_difference(log, replayed(log)) is None


def test_no_golden_log_is_missing_or_cut_short() -> None:
    assert (len(LOGS), sum(len(read_log(path).passes) for path in LOGS)) == (NUM_LOGS, NUM_PASSES)
