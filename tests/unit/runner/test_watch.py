"""Whoever looks on changes nothing, and sees what the rows say."""

from pathlib import Path

import pytest
from explain_runs import CASES, Case

from schedbench.errors import RunStoreError
from schedbench.results.digest import table_digest
from schedbench.results.stored_run import StoredRun
from schedbench.runner.explain.request import RequestWatcher, timeline_of
from schedbench.runner.explain.rerun import look_on, rerun_of
from schedbench.runner.watch import Watcher
from schedbench.sched import admission_loop, running_loop

EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


@EVERY_CASE
def test_a_watched_replay_leaves_the_rows_of_the_stored_one(case: Case, tmp_path: Path) -> None:
    run = case.stored(tmp_path)
    watched = look_on(rerun_of(run), Watcher())
    for name, ours in (("passes", run.passes()), ("requests", run.requests()), ("itl", run.itl())):
        theirs = getattr(watched.rows, name).table()
        assert table_digest(theirs) == table_digest(ours), name


def test_the_plain_path_is_back_after_a_watched_replay(tmp_path: Path) -> None:
    before = (running_loop.schedule_one, admission_loop.consider)
    look_on(CASES["pressed"].rerun(tmp_path), Watcher())
    assert (running_loop.schedule_one, admission_loop.consider) == before


@EVERY_CASE
def test_a_timeline_waits_as_long_as_the_requests_table_says(case: Case, tmp_path: Path) -> None:
    rerun = case.rerun(tmp_path)
    for row in range(0, rerun.trace.num_requests, 5):
        watcher = RequestWatcher(row)
        timeline = timeline_of(watcher, look_on(rerun, watcher))
        waited = {verdict: ns for verdict, (_, ns) in timeline.waited.items() if ns}
        named = {
            name.removeprefix("wait_").removesuffix("_ns"): ns
            for name, ns in timeline.facts.items()
            if name.startswith("wait_") and ns
        }
        assert waited == named, row


@EVERY_CASE
def test_a_timeline_tells_when_a_request_ran_first_and_got_its_first_token(
    case: Case, tmp_path: Path
) -> None:
    rerun = case.rerun(tmp_path)
    for row in range(2, rerun.trace.num_requests, 9):
        watcher = RequestWatcher(row)
        timeline = timeline_of(watcher, look_on(rerun, watcher))
        steps = {step.event.value: step for step in reversed(timeline.steps)}
        found = timeline.facts
        ran = steps.get("admitted")
        assert (ran and ran.begin_ns) == found["first_scheduled_ns"]
        token = steps.get("first token")
        assert (token and token.end_ns) == found["first_token_ns"]
        assert sum(step.event.value == "evicted" for step in timeline.steps) == found["preemptions"]
        if found["finish_reason"] != "abort":
            assert timeline.steps[-1].begin_ns == found["finish_ns"]


@EVERY_CASE
def test_nobody_looks_on_when_the_request_has_ended(case: Case, tmp_path: Path) -> None:
    rerun = case.rerun(tmp_path)
    if rerun.trace.has("chunks"):
        return  # a session may go on
    watcher = RequestWatcher(0)
    ended = timeline_of(watcher, watched := look_on(rerun, watcher)).steps[-1].end_ns
    last = watched.rows.passes.table().to_pylist()[-1]
    assert last["start_ns"] <= ended
    assert watched.rows.passes.table().num_rows < rerun.run.passes(["pass"]).num_rows


def test_a_trace_that_is_gone_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    run = CASES["pressed"].stored(tmp_path)
    path = tmp_path / "trace.parquet"
    path.rename(tmp_path / "moved.parquet")
    with pytest.raises(RunStoreError, match=r"not there any more.*--trace PATH"):
        rerun_of(run)
    assert rerun_of(run, str(tmp_path / "moved.parquet")).trace.num_requests == 40


def test_another_trace_is_an_error_that_names_both_digests(tmp_path: Path) -> None:
    run = CASES["pressed"].stored(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    CASES["priority"].stored(other)
    with pytest.raises(RunStoreError, match=r"its digest is sha256:.*sha256:"):
        rerun_of(run, str(other / "trace.parquet"))


def test_a_run_that_decides_otherwise_now_is_refused(tmp_path: Path) -> None:
    run = CASES["pressed"].stored(tmp_path)
    changed = StoredRun(
        run.path,
        {**run.manifest, "scheduler": {**run.manifest["scheduler"], "max_num_seqs": 3}},
        run.summary,
    )
    with pytest.raises(RunStoreError, match=r"pass \d+ is decided otherwise now"):
        look_on(rerun_of(changed), Watcher())
