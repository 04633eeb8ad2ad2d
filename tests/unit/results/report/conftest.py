"""One crowded run and one page for all tests that only look at them."""

import pytest
from report_runs import crowded_run

from schedbench.results.report.run_page import run_page
from schedbench.results.report.subject import Subject
from schedbench.results.stored_run import StoredRun


@pytest.fixture(scope="session")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    return crowded_run(tmp_path_factory.mktemp("report") / "crowded")


@pytest.fixture(scope="session")
def page_html(crowded: StoredRun) -> str:
    return run_page([Subject(crowded)]).html
