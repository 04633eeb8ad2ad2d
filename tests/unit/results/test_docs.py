"""The pages about tables and metrics are what the code says today."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    "script", ["make_pass_log.py", "make_metrics.py", "make_semantics.py", "make_recording.py"]
)
def test_a_page_is_what_its_script_makes(script: str) -> None:
    made = runpy.run_path(str(DOCS / script))
    assert made["PAGE"].read_text() == made["page"]()
