"""Who resumed follows from the log, and adds up with how long each request waited."""

from pathlib import Path

import pytest
from report_runs import crowded_run

from schedbench.results.report.evictions import evictions


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("ahead", [True, False])
def test_all_waits_are_explained(tmp_path: Path, policy: str, *, ahead: bool) -> None:
    run = crowded_run(tmp_path / "run", policy=policy, async_scheduling=ahead)
    found = evictions(run.passes(), run.requests(), policy)
    evicted = [each for each in run.requests().to_pylist() if each["preemptions"]]
    assert {row: len(each.spans) for row, each in found.items()} == {
        each["row"]: each["preemptions"] for each in evicted
    }
    assert all(each.adds_up for each in found.values())
    assert any(len(each.spans) > 1 for each in found.values())


def test_a_wrong_order_is_marked(tmp_path: Path) -> None:
    run = crowded_run(tmp_path / "run")
    requests = run.requests()
    changed = requests.set_column(
        requests.column_names.index("wait_pass_in_flight_ns"),
        "wait_pass_in_flight_ns",
        [[value + 1 for value in requests["wait_pass_in_flight_ns"].to_pylist()]],
    )
    found = evictions(run.passes(), changed, "fcfs")
    assert not any(each.adds_up for each in found.values())
