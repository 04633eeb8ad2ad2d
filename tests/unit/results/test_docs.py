"""The pages about tables and metrics are what the code says today."""

import re
import runpy
from pathlib import Path

import pytest

from schedbench.cli.tune import Searching

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    "script", ["make_pass_log.py", "make_metrics.py", "make_semantics.py", "make_recording.py"]
)
def test_a_page_is_what_its_script_makes(script: str) -> None:
    made = runpy.run_path(str(DOCS / script))
    assert made["PAGE"].read_text() == made["page"]()


def test_no_search_of_the_page_about_tuning_was_worse_than_the_grid() -> None:
    page = (DOCS / "tune.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"at least as good in (\d+) of (\d+) searches of (\d+) replays", page)
    as_good, searches, replays = found
    assert as_good == searches
    assert int(searches) >= 2 * 3  # on two traces, from several seeds
    assert replays == Searching().replays


def test_a_report_of_a_million_passes_is_below_ten_megabytes() -> None:
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    ((megabytes, passes),) = re.findall(r"([\d.]+) MB, [\d,]+ of ([\d,]+) passes", page)
    assert passes == "1,000,000"
    assert float(megabytes) < 10
