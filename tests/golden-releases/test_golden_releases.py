"""Passes that the classes of the releases between the first and the last modelled one made.

`tests/golden-0.27` holds logs of vLLM 0.27.0, and so on: scenarios that its class decides otherwise
than one of its neighbours, or than both ends. 0.27.1 has the scheduler of 0.27.0.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_runs import replayed

from schedbench.runner.golden_log import first_difference, read_log
from schedbench.sched.behaviours import MODELLED, RELEASES

TESTS = Path(__file__).parents[1]
BETWEEN = [release for release in MODELLED[1:-1] if RELEASES[release] != RELEASES["0.27.0"]]
LOGS = {
    release: sorted((TESTS / f"golden-{release.rpartition('.')[0]}").glob("*.jsonl.gz"))
    for release in ("0.27.0", *BETWEEN)
}


@pytest.mark.parametrize(
    ("release", "path"),
    [(release, path) for release, paths in LOGS.items() for path in paths],
    ids=lambda each: each if isinstance(each, str) else each.name.removesuffix(".jsonl.gz"),
)
def test_every_column_of_every_pass_is_as_the_class_of_that_release_logged_it(
    release: str, path: Path
) -> None:
    log = read_log(path)
    assert log.header["vllm_version"] == release
    assert log.passes
    assert first_difference(log, replayed(log)) is None


def test_no_golden_log_of_a_release_between_is_missing_or_cut_short() -> None:
    counted = {
        release: (len(paths), sum(len(read_log(path).passes) for path in paths))
        for release, paths in LOGS.items()
    }
    assert counted == {
        "0.27.0": (10, 2052),
        "0.28.0": (6, 300),
        "0.29.0": (6, 300),
        "0.30.0": (9, 467),
        "0.31.0": (10, 506),
        "0.32.0": (9, 483),
    }
