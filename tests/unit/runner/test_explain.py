"""What is told of a run is true of it, and what is said to help does help."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from explain_runs import CASES, COST, MS, Case, plain

from schedbench.errors import UsageError
from schedbench.results.explain.preemptions import Preemptions
from schedbench.results.explain.prefix_view import prefix_view
from schedbench.results.explain.timeline import Event, Timeline
from schedbench.results.explain.what_if_sheet import request_what_ifs
from schedbench.results.explain.words import MEANING
from schedbench.runner.clock import parse_cost
from schedbench.runner.explain.candidates import OUTSIDE, candidates, loosens
from schedbench.runner.explain.naming import find_row
from schedbench.runner.explain.one_pass import PassWatcher, one_pass_of
from schedbench.runner.explain.preemptions import PreemptionWatcher
from schedbench.runner.explain.prefix import prefix_changes, prefix_of, prefix_watcher_of
from schedbench.runner.explain.remedies import find_remedies
from schedbench.runner.explain.request import RequestWatcher, timeline_of
from schedbench.runner.explain.rerun import Rerun, look_on
from schedbench.runner.explain.sooner import changes_for, changes_for_run
from schedbench.runner.explain.times import straight_line
from schedbench.runner.explain.trials import try_changes
from schedbench.runner.explain.waiting import WaitingWatcher, waiting_of
from schedbench.runner.replay import Replay
from schedbench.runner.run import ReplayOptions, replay
from schedbench.runner.watch import Loop, Watcher
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.request import Request
from schedbench.sched.schedule_pass import SchedulePass
from schedbench.sched.verdicts import Kind, Verdict

EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
EVERY_PASS = range(0, 120, 7)


def timeline(rerun: Rerun, row: int) -> Timeline:
    watcher = RequestWatcher(row)
    return timeline_of(watcher, look_on(rerun, watcher))


@pytest.mark.parametrize(
    ("name", "row", "flag"),
    [
        ("pressed", 30, "num_gpu_blocks"),
        ("seats", 30, "max_num_seqs"),
        ("budget", 20, "max_num_batched_tokens"),
        ("watermark", 30, "watermark"),
        ("adapters", 3, "max_loras"),
        ("priority", 38, "max_num_seqs"),
        ("turns", 8, "num_gpu_blocks"),
    ],
)
def test_a_change_that_is_named_is_replayed_and_does_shorten_the_wait(
    name: str, row: int, flag: str, tmp_path: Path
) -> None:
    rerun = CASES[name].rerun(tmp_path)
    changes, _ = changes_for(timeline(rerun, row), rerun)
    found = try_changes(rerun, changes, workers=1)
    best = found.shortening(row)
    assert any(flag in each.changes for each in best)
    for each in best:
        config = dataclasses.replace(rerun.config, **each.changes)
        again = replay(rerun.trace, config, parse_cost(COST), options=rerun.options)
        (other,) = [r for r in again.requests.to_pylist() if r["row"] == row]
        (before,) = [r for r in rerun.run.requests().to_pylist() if r["row"] == row]
        assert other["first_scheduled_ns"] < before["first_scheduled_ns"] or waited(other) < waited(
            before
        )


def test_a_wait_between_turns_is_shortened_though_the_first_one_is_not(tmp_path: Path) -> None:
    rerun = CASES["turns"].rerun(tmp_path)
    found = try_changes(rerun, [{"num_gpu_blocks": 800}], workers=1)
    (tried,) = found.shortening(10)
    assert tried.queue_ns(10) == found.base.queue_ns(10)
    before, now = found.base.waited_ns(10), tried.waited_ns(10)
    assert before is not None
    assert now is not None
    assert now < before
    (row,) = [each for each in rerun.run.requests().to_pylist() if each["row"] == 10]
    assert before == waited(row) - row["wait_awaiting_input_ns"]
    assert row["wait_awaiting_input_ns"] > 0
    (sheet,) = request_what_ifs(found, 10)
    assert [each.title for each in sheet.headings][1:3] == ["queue ms", "waited in all ms"]


def test_the_end_of_a_session_s_input_is_no_input_and_closes_one_that_waits(
    tmp_path: Path,
) -> None:
    rerun = CASES["turns"].rerun(tmp_path)
    waiting, busy = (timeline(rerun, row).steps for row in (0, 8))
    assert waiting[-1].facts["reason"] == "its session was closed"
    assert Event.INPUT_ENDS not in [step.event for step in waiting]
    assert Event.INPUT_ENDS in [step.event for step in busy]
    for steps in (waiting, busy):
        inputs = [step.facts["tokens"] for step in steps if step.event is Event.NEXT_INPUT]
        assert inputs == [40]


def waited(row: dict[str, Any]) -> int:
    return sum(ns for name, ns in row.items() if name.startswith("wait_"))


def test_what_a_change_does_to_the_others_leaves_the_request_itself_out(tmp_path: Path) -> None:
    rerun = CASES["seats"].rerun(tmp_path)
    found = try_changes(rerun, [{"max_num_seqs": 8}], workers=1)
    others = found.others(found.tried[0], 30)
    assert others.faster + others.slower + others.same == 39


def test_only_waits_for_something_outside_have_no_candidates() -> None:
    config = SchedulerConfig(max_loras=1)
    for verdict in Verdict:
        waits = verdict.kind in (Kind.STOP, Kind.ASIDE)
        no_wait = ("list_done", "queues_empty", "preempted", "preempted_self", "prefills_held")
        no_wait += ("encoder_set_aside", "read_ahead_set_aside")
        if not waits or verdict.label in no_wait or verdict.label == "blocks_short_stopped":
            continue
        has_some = bool(candidates(verdict.label, config))
        assert has_some == (verdict.label not in OUTSIDE), verdict.label


@pytest.mark.parametrize(
    ("changes", "is_looser"),
    [
        ({"max_num_batched_tokens": 4096}, False),
        ({"max_num_batched_tokens": 16384}, True),
        ({"max_num_scheduled_tokens": 4096}, True),
        ({"long_prefill_token_threshold": 2048}, False),
        ({"watermark": 0.05}, False),
        ({"watermark": 0.0}, True),
        ({"scheduler_reserve_full_isl": False}, True),
        ({"policy": "priority"}, False),
        ({"max_num_seqs": 2048, "num_gpu_blocks": 1}, False),
    ],
)
def test_loosening_is_to_raise_a_limit_or_to_take_one_away(
    changes: dict[str, Any], is_looser: bool
) -> None:
    config = SchedulerConfig(max_num_batched_tokens=8192, max_num_seqs=1024, num_gpu_blocks=100)
    assert loosens(config, changes) == is_looser


def test_what_is_called_loosened_of_a_run_loosens_every_kind_of_wait(tmp_path: Path) -> None:
    rerun = CASES["pressed"].rerun(tmp_path)
    for verdict in ("pass_in_flight", *(each.label for each in Verdict)):
        changes = changes_for_run({"waits": {f"{verdict}_ns": 1}}, rerun)
        assert all(loosens(rerun.config, each) for each in changes)
        if verdict in ("seats_full", "kv_blocks_short", "budget_spent"):
            assert changes


def test_every_reason_to_wait_or_to_be_stepped_over_has_its_words() -> None:
    reasons = {each.label for each in Verdict if each.kind not in (Kind.GRANT, Kind.FOLD)}
    assert reasons - {"preempted"} <= MEANING.keys()


@pytest.mark.parametrize("name", ["seats", "pipeline", "speculative", "synchronous"])
def test_every_token_behind_the_first_is_told_of_a_stretch_of_decodes(
    name: str, tmp_path: Path
) -> None:
    rerun = CASES[name].rerun(tmp_path)
    rows = [row for row in rerun.run.requests().to_pylist() if not row["preemptions"]]
    for row in rows[::5]:
        steps = timeline(rerun, row["row"]).steps
        decodes = [step.facts for step in steps if step.event is Event.DECODED]
        assert sum(each["came"] for each in decodes) == row["output_tokens"] - 1


@EVERY_CASE
def test_a_pass_is_told_decision_by_decision(case: Case, tmp_path: Path) -> None:
    rerun = case.rerun(tmp_path)
    rows = rerun.run.passes().to_pylist()
    for index in [each for each in EVERY_PASS if each < len(rows)]:
        watcher = PassWatcher(index)
        found = one_pass_of(watcher, look_on(rerun, watcher))
        row = rows[index]
        assert found.row == row
        granted = [each for each in found.decisions if each.kind == "GRANT"]
        evicted = {each.name for each in found.decisions if each.verdict == "preempted"}
        kept = [each for each in granted if each.name not in evicted]
        assert sum(each.tokens for each in kept) == row["tokens_scheduled"]
        verdicts = [each.verdict for each in found.decisions]
        assert verdicts.count("admitted") == row["admitted"]
        assert verdicts.count("resumed") == row["resumed"]
        assert verdicts.count("preempted") == row["preempted"]
        assert found.after.counts == {
            name: row[name] for name in ("running", "waiting", "skipped_waiting")
        }


class SkipWatcher(Watcher):
    """Notes the first pass in which a request is stepped over."""

    def __init__(self) -> None:
        self.passes = -1
        self.found: tuple[int, str] | None = None

    def begins(self, replay: Replay) -> None:
        del replay
        self.passes += 1

    def decides(
        self, replay: Replay, loop: Loop, this_pass: SchedulePass, request: Request, found: Verdict
    ) -> None:
        del replay, loop, this_pass, request
        if found.kind is Kind.SKIP and self.found is None:
            self.found = (self.passes, found.label)


def test_a_request_that_is_stepped_over_stands_in_the_pass_with_its_verdict(tmp_path: Path) -> None:
    rerun = CASES["pressed"].rerun(tmp_path)
    skips = SkipWatcher()
    look_on(rerun, skips)
    assert skips.found is not None
    index, verdict = skips.found
    watcher = PassWatcher(index)
    look_on(rerun, watcher)
    assert verdict in [each.verdict for each in watcher.decisions if each.kind == "SKIP"]


def test_a_pass_beyond_the_last_is_an_error_that_says_how_many_there_are(tmp_path: Path) -> None:
    rerun = CASES["seats"].rerun(tmp_path)
    watcher = PassWatcher(100_000)
    with pytest.raises(UsageError, match=r"--pass 100000: the run has \d+ passes, from 0 to \d+"):
        one_pass_of(watcher, look_on(rerun, watcher))


@EVERY_CASE
def test_every_eviction_of_the_pass_log_is_told_with_who_got_the_blocks(
    case: Case, tmp_path: Path
) -> None:
    rerun = case.rerun(tmp_path)
    watcher = PreemptionWatcher()
    look_on(rerun, watcher)
    told: dict[int, list[int]] = {}
    for each in watcher.evictions:
        assert each.index is not None
        assert each.by is not None
        told.setdefault(each.index, []).append(each.row)
    logged = {row["pass"]: row["victims"] for row in rerun.run.passes().to_pylist()}
    assert told == {index: victims for index, victims in logged.items() if victims}
    found = Preemptions(tuple(watcher.evictions), rerun.run.summary)
    assert sum(times * n for times, n in found.histogram.items()) == len(watcher.evictions)
    assert sum(each.tokens for each in watcher.evictions) == rerun.run.summary["preempted_tokens"]


def test_the_least_change_ends_preemption_and_one_step_less_does_not(tmp_path: Path) -> None:
    rerun = CASES["pressed"].rerun(tmp_path)
    steps = {"num_gpu_blocks": -1, "max_num_seqs": 1, "watermark": -0.01}
    remedies, _ = find_remedies(rerun, workers=1)
    assert [each.flag for each in remedies] == list(steps)
    for each in remedies:
        assert each.value is not None
        for value, preempts in ((each.value, False), (each.value + steps[each.flag], True)):
            config = dataclasses.replace(rerun.config, **{each.flag: value})
            run = replay(rerun.trace, config, parse_cost(COST), options=rerun.options)
            assert (run.summary["preempted"] > 0) == preempts


@EVERY_CASE
def test_waiting_adds_up_to_the_waits_of_the_requests_table(case: Case, tmp_path: Path) -> None:
    rerun = case.rerun(tmp_path)
    watcher = WaitingWatcher(rerun)
    found = waiting_of(watcher, look_on(rerun, watcher))
    summed = {f"{each.verdict}_ns": each.waited_ns for each in found.held}
    assert summed == rerun.run.summary["waits"]
    assert sum(summed.values()) == found.waited_ns
    rows = rerun.run.passes().to_pylist()
    idle = sum(row["running"] - row["requests_scheduled"] for row in rows)
    assert found.held_seats.total() == idle
    assert found.holds.total().total() == found.waited_ns
    assert found.running_passes == sum(row["running"] for row in rows)
    assert found.busy_passes == sum(row["running"] > 0 for row in rows)


def test_an_urgent_request_behind_a_full_house_is_an_inversion(tmp_path: Path) -> None:
    case = Case(
        {
            "arrival_ns": [0, 5 * MS],
            "prompt_tokens": [16, 16],
            "output_tokens": [12, 4],
            "priority": [9, 0],
        },
        {"max_num_seqs": 1, "policy": "priority", "async_scheduling": False},
    )
    rerun = case.rerun(tmp_path)
    watcher = WaitingWatcher(rerun)
    inversions = waiting_of(watcher, look_on(rerun, watcher)).inversions
    assert [(each.row, each.priority, each.holder_priority) for each in inversions] == [(1, 0, 9)]
    assert inversions[0].verdicts == {("seats_full", "seats_full"): inversions[0].passes}
    assert inversions[0].passes > 0


def test_equal_priorities_are_no_inversion(tmp_path: Path) -> None:
    rerun = CASES["seats"].rerun(tmp_path)
    watcher = WaitingWatcher(rerun)
    assert waiting_of(watcher, look_on(rerun, watcher)).inversions == ()


def test_an_adapter_that_is_kept_out_is_counted_pass_by_pass(tmp_path: Path) -> None:
    rerun = CASES["adapters"].rerun(tmp_path)
    watcher = WaitingWatcher(rerun)
    found = waiting_of(watcher, look_on(rerun, watcher))
    assert found.skips
    assert all(0 < each.longest_streak <= each.passes for each in found.skips.values())


@pytest.mark.parametrize("name", ["shared", "pressed", "remote KV"])
def test_every_token_looked_up_is_hit_or_lost_for_a_reason(name: str, tmp_path: Path) -> None:
    rerun = CASES[name].rerun(tmp_path)
    watcher = prefix_watcher_of(rerun)
    look_on(rerun, watcher)
    found = prefix_of(watcher, rerun)
    summary = rerun.run.summary
    assert found.first.queried == summary["prefix_query_tokens"]
    assert found.first.hit == summary["prefix_hit_tokens"]
    assert found.resumed.hit == summary["resumed_cached_tokens"]
    if found.shared is not None:
        assert found.first.hit + found.evicted + found.not_yet + found.floor == found.shared


def test_a_block_larger_than_what_is_shared_is_tried_smaller(tmp_path: Path) -> None:
    case = dataclasses.replace(CASES["shared"], flags={"block_size": 64, "num_gpu_blocks": 200})
    rerun = case.rerun(tmp_path)
    watcher = prefix_watcher_of(rerun)
    look_on(rerun, watcher)
    found = prefix_of(watcher, rerun)
    assert found.first.hit == 0
    assert found.floor == found.shared
    (smaller,) = prefix_changes(found, rerun)
    tried = try_changes(rerun, [smaller], workers=1).tried[0]
    assert tried.summary is not None
    assert tried.summary["prefix_hit_tokens"] > 0


def test_without_a_cache_nothing_is_said_to_have_come_too_soon(tmp_path: Path) -> None:
    flags = {"enable_prefix_caching": False, "num_gpu_blocks": 200}
    rerun = dataclasses.replace(CASES["shared"], flags=flags).rerun(tmp_path)
    watcher = prefix_watcher_of(rerun)
    look_on(rerun, watcher)
    view = prefix_view(prefix_of(watcher, rerun), "run", None)
    cells = [cell.text for sheet in view.sheets for row in sheet.rows for cell in row]
    assert any("prefix caching is off: nothing can be hit" in text for text in cells)
    assert "not yet there" not in cells


def test_a_request_is_found_by_its_label_before_its_row() -> None:
    trace = Case(plain(4, request_id=["a", "b", "c", "1"])).trace()
    assert [find_row(trace, text) for text in ("b", "1", "2")] == [1, 3, 2]
    with pytest.raises(UsageError, match=r"the run has no such request.* from 0 to 3"):
        find_row(trace, "x")


def test_a_straight_line_through_linear_times_is_that_line(tmp_path: Path) -> None:
    run = CASES["pressed"].stored(tmp_path)
    assert straight_line(run) == parse_cost(COST)


def test_changed_flags_that_vllm_refuses_are_left_out(tmp_path: Path) -> None:
    rerun = CASES["seats"].rerun(tmp_path)
    impossible = {"max_num_batched_tokens": 2}
    found = try_changes(rerun, [impossible, {"max_num_seqs": 5}, {"max_num_seqs": 5}], workers=1)
    assert [each.changes for each in found.tried] == [{"max_num_seqs": 5}]


def test_the_options_of_a_run_come_back_from_its_manifest(tmp_path: Path) -> None:
    rerun = CASES["sped up"].rerun(tmp_path)
    expected = ReplayOptions(speedup="2", warmup_ns=20 * MS, events=[])
    assert rerun.options == expected
