"""A search is the same everywhere, wastes no replay, and finds what a grid finds."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from explain_runs import COST, MS, plain
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.goals import Goal
from schedbench.runner.deployment import Deployment
from schedbench.runner.run import ReplayOptions
from schedbench.runner.sweep import Plan, sweep
from schedbench.runner.sweep_worker import Job
from schedbench.runner.tune.max_rate import RateSearch
from schedbench.runner.tune.search import Problem, Search
from schedbench.runner.tune.space import Choices, Range, Space, beside, first_points, spread
from schedbench.runner.tune.study import Memory
from schedbench.runner.workers import Workers
from schedbench.workloads.trace import Trace

SLO = {"ttft": 60 * MS, "tpot": 3 * MS}
FLAGS = {"num_gpu_blocks": 120, "max_model_len": 1024}
SPACE: Space = {"max_num_seqs": Range(1, 64), "max_num_batched_tokens": Range(64, 4096)}


def a_trace(rows: int = 60) -> Trace:
    return Trace.from_columns(plain(rows))


def problem(trace: Trace, root: Path | None = None, space: Space = SPACE) -> Problem:
    return Problem(trace, space, Goal.GOODPUT, plan(SLO), root)


def plan(slo: dict[str, int]) -> Plan:
    return Plan({}, FLAGS, ReplayOptions(slo_ns=slo, deployment=Deployment(cost=COST)))


def searched(of: Problem, replays: int, *, seed: int = 0, workers: int = 1) -> Search:
    memory = Memory(of.space, of.root, maximizes=of.goal.maximizes, seed=seed)
    search = Search(of, memory, replays)
    with Workers(of.trace, workers) as pool:
        search.run(pool)
    return search


def points(search: Search) -> list[object]:
    return [(each.point, each.is_pruned, each.prefix) for each in search.tried]


@given(low=st.integers(0, 5000), span=st.integers(1, 100_000), share=st.floats(0, 1))
def test_a_snapped_value_stays_in_its_range_and_near_what_was_asked(
    low: int, span: int, share: float
) -> None:
    each = Range(low, low + span)
    value = low + share * span
    for fine, part in ((False, 4), (True, 16)):
        snapped = each.snapped(value, fine=fine)
        assert low <= snapped <= low + span
        assert abs(snapped - value) <= max(1, value / part)
        assert each.snapped(snapped, fine=fine) == snapped or snapped in (low, low + span)


def test_points_beside_one_differ_in_one_flag_stay_inside_and_close_in_on_it() -> None:
    space: Space = {"a": Range(1, 1000), "b": Choices((1, 2, 3)), "c": Range(0.0, 0.5, whole=False)}
    point = {"a": 15, "b": 1, "c": 0.5}
    known = [point]
    while new := beside(space, point, known):
        for other in new:
            (name,) = [name for name in point if other[name] != point[name]]
            assert other[name] == space[name].clipped(other[name])
        known.append(new[0])
    assert {14, 16} <= {each["a"] for each in known}
    assert {each["b"] for each in known} == {1, 2}
    assert max(each["c"] for each in known if each["c"] < 0.5) > 0.49


@given(flags=st.integers(1, 8), count=st.integers(1, 40), seed=st.integers())
def test_spread_points_have_one_in_every_part_of_a_range(flags: int, count: int, seed: int) -> None:
    space: Space = {str(n): Range(0.0, 1000.0 * count, whole=False) for n in range(flags)}
    for name in space:
        parts = [int(each[name] / 1000 - 1e-5) for each in spread(space, count, seed)]
        assert sorted(parts) == [*range(count)]


def test_a_search_begins_with_what_is_set_the_middle_and_the_high_end() -> None:
    found = first_points(SPACE, {"max_num_seqs": 256, "max_num_batched_tokens": 2048})
    assert found == [
        {"max_num_seqs": 64, "max_num_batched_tokens": 2048},
        {"max_num_seqs": 8, "max_num_batched_tokens": 512},
        {"max_num_seqs": 64, "max_num_batched_tokens": 4096},
    ]


def test_equal_seeds_search_alike_with_any_number_of_processes() -> None:
    of = problem(a_trace())
    assert points(searched(of, 18)) == points(searched(of, 18, workers=2))


def test_other_seeds_search_otherwise() -> None:
    of = problem(a_trace())
    assert points(searched(of, 18)) != points(searched(of, 18, seed=1))


def test_a_search_that_was_cut_short_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    trace = a_trace()
    whole = searched(problem(trace), 24)
    of = problem(trace, tmp_path)
    memory = Memory(of.space, of.root, maximizes=True, seed=0)

    def stop(search: Search) -> None:
        if search.num_replayed >= 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Workers(trace, 1) as pool:
        Search(of, memory, 24, stop).run(pool)
    memory.study.ask()  # a trial that was under way
    before = {path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}
    again = searched(of, 24)
    assert points(again) == points(whole)
    assert before <= {path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}


def test_a_search_that_ended_can_go_on_for_longer(tmp_path: Path) -> None:
    of = problem(a_trace(), tmp_path)
    first = searched(of, 8)
    longer = searched(of, 16)
    assert points(longer)[:8] == points(first)
    assert longer.num_replayed == 16


def test_no_point_is_replayed_twice() -> None:
    search = searched(problem(a_trace()), 30)
    seen = [tuple(each.point.items()) for each in search.tried]
    assert len(set(seen)) == len(seen)


def test_a_space_that_is_searched_to_the_end_ends_the_search() -> None:
    space: Space = {"max_num_seqs": Choices((4, 8)), "enable_chunked_prefill": Choices((True,))}
    search = searched(problem(a_trace(), space=space), 50)
    assert len(search.tried) == 2


def test_what_vllm_refuses_is_no_replay() -> None:
    space: Space = {"max_num_seqs": Range(1, 256), "max_num_batched_tokens": Range(8, 256)}
    search = searched(problem(a_trace(), space=space), 24)
    refused = [each for each in search.tried if each.is_refused]
    assert refused
    assert all("vLLM refuses it" in each.outcome.reason for each in refused if each.outcome)
    assert search.num_replayed == 24


def test_points_that_do_badly_on_the_first_part_are_given_up() -> None:
    trace = Trace.from_columns(plain(800, output_tokens=[4] * 800))
    search = searched(problem(trace), 20)
    pruned = [each for each in search.tried if each.is_pruned]
    assert pruned
    kept = sorted(each.prefix or 0.0 for each in search.whole)
    assert all((each.prefix or 0.0) < kept[-1] for each in pruned)


@pytest.mark.parametrize("goal", list(Goal))
def test_a_search_finds_what_the_best_of_a_grid_has(goal: Goal) -> None:
    trace = a_trace(60)
    axes = {
        "max_num_seqs": [2, 4, 8, 16, 64],
        "max_num_batched_tokens": [64, 128, 512, 1024, 4096],
    }
    grid = sweep(
        trace,
        axes,
        flags=FLAGS,
        options=ReplayOptions(slo_ns=SLO),
        cost=COST,
        workers=1,
    )
    values = [goal.value_of(each.summary) for each in grid if each.summary is not None]
    known = [value for value in values if value is not None]
    of = dataclasses.replace(problem(trace), goal=goal)
    best = searched(of, 20).whole[0].summary
    assert best is not None
    found = goal.value_of(best)
    assert found is not None
    assert found >= max(known) if goal.maximizes else found <= min(known)


class Landscape:
    """In place of replays: a wide plateau, and a narrow peak far from it."""

    def each(self, _: object, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, object]]]:
        for job in jobs:
            away = abs(math.log2(job.point["max_num_seqs"] / 15)) / 5
            height = max(0.95 if job.point["max_num_seqs"] > 20 else 0.3, 1 - away)
            summary = {"goodput": {"requests_per_s": height}, "ttft_ns": {"p99": None}}
            yield job, {"status": "complete", "summary": summary}


@pytest.mark.parametrize("seed", range(8))
def test_a_search_leaves_a_plateau_for_a_narrow_peak(seed: int) -> None:
    space: Space = {
        "max_num_seqs": Range(8, 192),
        "max_num_batched_tokens": Range(256, 8192),
        "watermark": Range(0.0, 0.1, whole=False),
    }
    of = problem(a_trace(), space=space)
    search = Search(of, Memory(space, None, maximizes=True, seed=seed), 64)
    search.run(Landscape())  # type: ignore[arg-type]
    assert search.whole[0].point["max_num_seqs"] == 15


def test_the_rate_that_is_found_holds_and_a_little_more_does_not() -> None:
    trace = a_trace()
    search = RateSearch(trace, plan({"ttft": 40 * MS}), 0.95)
    best = search.run()
    assert best is not None
    for speedup, holds in ((best.speedup, True), (best.speedup * Fraction(102, 100), False)):
        assert search.at(speedup).holds == holds


def test_an_slo_that_no_rate_holds_has_no_rate() -> None:
    assert RateSearch(a_trace(5), plan({"ttft": 1}), 0.95).run() is None
