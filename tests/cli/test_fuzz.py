"""A short, fixed slice of `make fuzz`."""

from itertools import islice
from pathlib import Path

from fuzz_commands import draw, fuzz

CASES = 65


def test_no_file_ends_a_command_in_a_traceback_a_hang_or_a_fault_of_the_program(
    tmp_path: Path,
) -> None:
    tally = fuzz(islice(draw("readers", 20, tmp_path), CASES), tmp_path)
    assert tally.faults == []
    assert tally.cases == CASES
    assert len(tally.messages) > 10  # the cases reach the rules, not one of them
