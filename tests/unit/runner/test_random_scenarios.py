"""Random scenarios and the logs they are kept in."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from schedbench.runner.fuzz import draw_scenario
from schedbench.runner.fuzz_flags import ALONE, FEATURES, LARGE, NEEDS, absent_from
from schedbench.runner.golden_log import GoldenLog, first_difference, read_log, write_log
from schedbench.sched.behaviours import MODELLED as RELEASES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("release", RELEASES)
def test_a_scenario_is_a_function_of_its_seed_and_release(release: str) -> None:
    first, again = draw_scenario(7, release), draw_scenario(7, release)
    assert first == again
    assert first != draw_scenario(8, release)


@pytest.mark.parametrize("release", RELEASES)
def test_only_allowed_features_are_drawn(release: str) -> None:
    for seed in range(100):
        flags = draw_scenario(seed, release, {"prefix", "pressure"}).config
        assert not flags["async_scheduling"]
        assert not flags["kv_connector"]
        assert flags["num_speculative_tokens"] == 0


@pytest.mark.parametrize("release", RELEASES)
def test_every_feature_is_drawn_that_a_release_has(release: str) -> None:
    notes = {word for seed in range(300) for word in _note(draw_scenario(seed, release))}
    assert notes - {"Random:"} == set(FEATURES) - absent_from(release)


@pytest.mark.parametrize("release", RELEASES)
def test_a_feature_that_is_more_of_another_one_comes_with_it(release: str) -> None:
    for seed in range(300):
        drawn = set(_note(draw_scenario(seed, release)))
        assert all(drawn.issuperset(NEEDS[name]) for name in drawn & set(NEEDS)), seed


@pytest.mark.parametrize("release", RELEASES)
def test_any_two_features_meet_and_the_large_ones_all_at_once(release: str) -> None:
    names = sorted(set(FEATURES) - absent_from(release))
    drawn = [set(_note(draw_scenario(seed, release))) for seed in range(2500)]
    met = Counter(pair for case in drawn for pair in combinations(sorted(case), 2))
    assert [pair for pair in combinations(names, 2) if not met[pair]] == []
    assert sum(case >= LARGE for case in drawn) > 50


def test_a_newer_release_has_cases_of_few_features_and_none_that_are_not_allowed() -> None:
    drawn = [frozenset(_note(draw_scenario(seed, RELEASES[-1]))[1:]) for seed in range(100)]
    assert all(drawn.count(alone) > 3 for alone in ALONE)
    barred = set(FEATURES) - {"prefix"}
    notes = [_note(draw_scenario(seed, RELEASES[-1], barred)) for seed in range(100)]
    assert not any("prefix" in note for note in notes)
    assert sum(frozenset(note[1:]) == ALONE[0] for note in notes) > 3


def test_one_request_of_a_newer_release_may_have_one_hash_for_inputs_of_two_lengths() -> None:
    cases = [draw_scenario(seed, RELEASES[-1], {"encoder"}) for seed in range(200)]
    inputs = [request.get("mm", []) for case in cases for request in case.requests]
    named = [{(item["hash"], item["length"]) for item in items} for items in inputs]
    assert sum(len({name for name, _ in pairs}) < len(pairs) for pairs in named) > 5


def _note(scenario: GoldenLog) -> list[str]:
    note: str = scenario.header["note"]
    return note.split()


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    scenario = draw_scenario(3)
    write_log(tmp_path / "log.gz", scenario)
    assert read_log(tmp_path / "log.gz") == scenario
    first_bytes = (tmp_path / "log.gz").read_bytes()
    write_log(tmp_path / "other.gz", scenario)
    assert (tmp_path / "other.gz").read_bytes() == first_bytes


def test_the_first_difference_names_pass_and_column() -> None:
    header, row = {"config": {}, "stats": {}}, {"i": 0, "spent": 4}
    left = GoldenLog(header, [], [row, row | {"spent": 5}])
    right = GoldenLog(header, [], [row, row])
    assert str(first_difference(left, right)) == "pass 1, spent: 5 != 4"
    assert str(first_difference(left, GoldenLog(header, [], [row]))) == (
        "log, number of passes: 2 != 1"
    )
    assert first_difference(left, left) is None
