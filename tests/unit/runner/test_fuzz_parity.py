from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.fuzz_parity import PLAIN_FLAGS, _smaller
from schedbench.sched.behaviours import MODELLED as RELEASES

if TYPE_CHECKING:
    from schedbench.runner.golden_log import GoldenLog


def drawn(feature: str, release: str) -> GoldenLog:
    cases = (draw_scenario(seed, release) for seed in count())
    return next(case for case in cases if feature in case.header["note"].split())


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("feature", "flag", "field", "events"),
    [
        ("remote_kv", "kv_connector", "remote_kv", "kv_"),
        ("encoder", "encoder_budget", "mm", "encoder_"),
    ],
)
def test_a_shrunk_case_without_a_feature_holds_nothing_that_needs_it(
    feature: str, flag: str, field: str, events: str, release: str
) -> None:
    case = drawn(feature, release)
    assert any(field in request for request in case.requests)
    without = next(each for each in _smaller(case) if each.config[flag] == PLAIN_FLAGS[flag])
    assert not any(field in request for request in without.requests)
    assert not any(event["op"].startswith(events) for event in without.header["events"])


def test_a_case_of_the_newer_release_may_ask_for_any_number_of_tokens_it_may_reach() -> None:
    cases = [draw_scenario(seed, RELEASES[-1]) for seed in range(200)]
    requests = [request for case in cases for request in case.requests]
    asked = [request for request in requests if request.get("min_tokens", 0) > 1]
    assert asked
    assert all(request["min_tokens"] <= request["max_tokens"] for request in asked)
