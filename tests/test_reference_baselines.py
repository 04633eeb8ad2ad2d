"""The scheduler decides on the reference traces as it did when their baselines were looked at."""

import json
from dataclasses import replace

import pytest
from reference_runs import FOLDER, REFERENCES, baseline_of

from schedbench.results.gate_report import gate_view
from schedbench.results.tables import plain_text
from schedbench.runner import gate


@pytest.mark.parametrize("short_way", [True, False])
@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_run_passes_its_gate(name: str, short_way: bool) -> None:
    reference, path = REFERENCES[name], baseline_of(name)
    setup = reference.setup()
    setup = replace(setup, options=replace(setup.options, short_way=short_way))
    run = gate.run_setup(reference.make(), setup)
    result = gate.gate(path, gate.read_baseline(path), run, setup)
    assert result.passed, "\n" + plain_text(gate_view(name, result))


def test_every_baseline_has_its_reference_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(REFERENCES)


def test_the_reference_runs_reach_what_they_are_there_for() -> None:
    counters = {name: json.loads(baseline_of(name).read_text())["counters"] for name in REFERENCES}
    for name in ("chat", "bursts", "tenants"):
        assert counters[name]["preempted"] > 0, name
    assert counters["chat"]["prefix_hit_tokens"] > 0
    assert counters["speculative"]["spec_tokens"] > 0
    assert counters["long-prompts"]["admission_stop.budget_spent.passes"] > 0
