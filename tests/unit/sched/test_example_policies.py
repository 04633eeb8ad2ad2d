"""The policies of docs/policies.md: complete, short, and what the page says they are."""

import re
import sys
from pathlib import Path

import pytest
from by_hand import TIGHT, make, step

from schedbench.runner.plugins import load_policy

DOCS = Path(__file__).parents[3] / "docs"
POLICIES = {
    "shortest_first": "ShortestFirst",
    "least_recompute": "LeastRecompute",
    "fair_clients": "FairClients",
}
MOST_LINES = 40


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(DOCS / "policies")])


def test_every_file_is_one_of_them_and_under_forty_lines() -> None:
    files = {path.stem: path for path in (DOCS / "policies").glob("*.py")}
    assert files.keys() == POLICIES.keys()
    assert all(len(path.read_text().splitlines()) < MOST_LINES for path in files.values())


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_shows_each_as_it_stands_in_its_file(name: str) -> None:
    page = (DOCS / "policies.md").read_text()
    (shown,) = re.findall(rf"<!-- file: {name}\.py -->\n```python\n([\s\S]*?)```", page)
    assert shown == (DOCS / "policies" / f"{name}.py").read_text()


@pytest.mark.parametrize(("name", "made"), POLICIES.items())
def test_each_serves_everybody_on_a_pool_that_is_too_small(name: str, made: str) -> None:
    scheduler = make(TIGHT, load_policy(f"{name}:{made}"), 10, 10, 4, 8, 3)
    evictions = 0
    for scheduler.now_ns in range(0, 400_000_000, 1_000_000):
        evictions += len(step(scheduler).victims)
    assert evictions > 0
    assert not scheduler.requests


def test_the_page_has_the_output_of_every_command() -> None:
    page = (DOCS / "policies.md").read_text()
    blocks = re.findall(r"```console\n(?:\$ .*\n)+([\s\S]*?)```", page)
    assert len(blocks) == 4
    assert all(block.strip() for block in blocks)
