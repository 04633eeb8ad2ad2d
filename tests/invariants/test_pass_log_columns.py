"""Each column of the pass log, recomputed from the logs of the real class, means what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_pass_log import NOT_IN_THE_LOG, ONLY_ALONE, differences, recomputed

from schedbench.results.pass_log import AT_UPDATE, PASS_COLUMNS
from schedbench.runner.golden_log import read_log

HERE = Path(__file__).parents[1]
FOLDERS = ("golden", "golden-0.33")
LOGS = {
    f"{folder}/{path.name.removesuffix('.jsonl.gz')}": path
    for folder in FOLDERS
    for path in sorted((HERE / folder).glob("*.jsonl.gz"))
}
NAMES = {column.name for column in PASS_COLUMNS}


@pytest.mark.parametrize("name", LOGS)
def test_the_pass_log_says_what_the_class_logged(name: str) -> None:
    assert list(differences(read_log(LOGS[name]))) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_column_is_recomputed_in_both_modes_or_has_a_reason_why_not(folder: str) -> None:
    settled: dict[bool, set[str]] = {False: set(), True: set()}
    seen = set[str]()
    for name, path in LOGS.items():
        if name.startswith(f"{folder}/"):
            log = read_log(path)
            for row in recomputed(log):
                known = {column for column, value in row.items() if value is not None}
                settled[log.config["async_scheduling"]] |= known
                seen |= {column for column in known if row[column] not in (0, [])}
    expected = NAMES - {*NOT_IN_THE_LOG}
    assert settled[False] - {*NOT_IN_THE_LOG} == expected
    assert settled[True] - {*NOT_IN_THE_LOG} == expected - {*ONLY_ALONE}
    assert seen == expected  # each has a value other than 0 somewhere


def test_what_the_docs_call_settled_by_the_update_is_there() -> None:
    assert NAMES.issuperset(AT_UPDATE)
