"""The golden logs find faults: each of some planted in the scheduler breaks the log it should."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_runs import replayed
from planted_faults import FAULTS, Fault

from schedbench.errors import InvariantError
from schedbench.runner.golden_log import GoldenLog, first_difference, read_log

HERE = Path(__file__).parent


def breaks(fault: Fault, log: GoldenLog) -> bool:
    """Whether a log comes out otherwise with the fault, or a law of the scheduler stops it."""
    try:
        with fault.planted():
            found = replayed(log)
    except InvariantError:
        return True
    return first_difference(log, found) is not None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_planted_fault_is_found_by_its_golden_log(fault: Fault) -> None:
    log = read_log(HERE / f"{fault.log}.jsonl.gz")
    assert breaks(fault, log)
    assert first_difference(log, replayed(log)) is None  # once it is gone
