"""A law that could not be broken would prove nothing: each one notices what is planted here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from laws import PASS_LAWS, STATE_LAWS, LawBrokenError, hold_to_pass_laws, hold_to_state_laws
from random_cases import Case
from run_laws import RUN_LAWS, hold_to_a_true_stall, hold_to_run_laws
from stepping import a_request, step
from watched import Watch, WatchedScheduler, watched_replay

from schedbench.results.run_tables import RunTables
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.kv_cache.block_table import PLACE_BITS, BlockTable
from schedbench.sched.request import EncoderInput, RequestStatus
from schedbench.sched.scheduler import Scheduler
from schedbench.sched.verdicts import Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from schedbench.runner.run import Run
    from schedbench.sched.output import SchedulerOutput
    from schedbench.workloads.trace import Trace

CONFIG = SchedulerConfig(
    async_scheduling=False,
    block_size=4,
    max_num_seqs=3,
    max_model_len=64,
    num_gpu_blocks=40,
    encoder_cache_size=8,
)
IMAGE = EncoderInput(0, 4, 4, "image")


def _scheduler() -> Scheduler:
    """Three run, an image of one of them is in the encoder cache; two wait."""
    scheduler = Scheduler(CONFIG)
    for name in "abcde":
        items = (IMAGE,) if name == "a" else ()
        scheduler.add_request(a_request(name, 9, 5, encoder_inputs=items))
    step(scheduler)
    return scheduler


def _stands_twice(scheduler: Scheduler) -> None:
    scheduler.queues.waiting.add_request(scheduler.running[0])


def _is_forgotten(scheduler: Scheduler) -> None:
    del scheduler.requests["b"]


def _has_the_wrong_status(scheduler: Scheduler) -> None:
    scheduler.running[0].status = RequestStatus.PREEMPTED


def _waits_blocked_among_the_others(scheduler: Scheduler) -> None:
    scheduler.requests["e"].status = RequestStatus.WAITING_FOR_REMOTE_KVS


def _stays_set_aside(scheduler: Scheduler) -> None:
    scheduler.queues.head()
    scheduler.queues.set_head_aside()


def _seat_is_counted_twice(scheduler: Scheduler) -> None:
    scheduler.num_waiting_for_streaming_input += 1


def _too_many_run(scheduler: Scheduler) -> None:
    scheduler.running += scheduler.running[:1]


def _block_is_lost(scheduler: Scheduler) -> None:
    scheduler.kv_cache.pool.free_queue.take_bare(1)


def _block_is_free_twice(scheduler: Scheduler) -> None:
    queue = scheduler.kv_cache.pool.free_queue
    queue.prepend_n(list(queue)[-1:])


def _block_is_free_and_held(scheduler: Scheduler) -> None:
    scheduler.kv_cache.pool.free_queue.prepend_n(scheduler.running[0].block_ids[:1])


def _null_block_is_handed_out(scheduler: Scheduler) -> None:
    scheduler.running[0].block_ids[-1] = 0


def _free_blocks_are_miscounted(scheduler: Scheduler) -> None:
    scheduler.kv_cache.pool.num_free -= 1


def _tokens_have_no_block(scheduler: Scheduler) -> None:
    scheduler.running[0].num_computed_tokens += 8


def _reference_is_left_over(scheduler: Scheduler) -> None:
    scheduler.running[0].block_table.holds.add(0, 1)


def _name_is_lost(scheduler: Scheduler) -> None:
    scheduler.kv_cache.pool._rows.popitem()


def _name_is_anothers(scheduler: Scheduler) -> None:
    pool, table = scheduler.kv_cache.pool, scheduler.running[0].block_table
    pool.forget(table, 0)
    table.forgotten.clear()
    table.num_named = 0
    pool.cache(table, [range(12345 << PLACE_BITS, (12345 << PLACE_BITS) + 1)])


def _bare_block_stands_in_the_back(scheduler: Scheduler) -> None:
    queue = scheduler.kv_cache.pool.free_queue
    queue.append(BlockTable(queue.take_bare(1)), [(0, 1)])


def _cached_blocks_are_miscounted(scheduler: Scheduler) -> None:
    scheduler.kv_cache.pool.num_cached += 1


def _embeddings_are_lost(scheduler: Scheduler) -> None:
    scheduler.encoder_cache.num_free -= 1


def _entry_that_nobody_uses_is_kept(scheduler: Scheduler) -> None:
    scheduler.encoder_cache._freeable.clear()


STATES: list[tuple[int, Callable[[Scheduler], None]]] = [
    (1, _stands_twice),
    (1, _is_forgotten),
    (1, _has_the_wrong_status),
    (1, _waits_blocked_among_the_others),
    (1, _stays_set_aside),
    (4, _seat_is_counted_twice),
    (4, _too_many_run),
    (5, _block_is_lost),
    (5, _block_is_free_twice),
    (5, _block_is_free_and_held),
    (5, _null_block_is_handed_out),
    (5, _free_blocks_are_miscounted),
    (5, _tokens_have_no_block),
    (6, _reference_is_left_over),
    (7, _name_is_lost),
    (7, _name_is_anothers),
    (7, _bare_block_stands_in_the_back),
    (7, _cached_blocks_are_miscounted),
    (8, _embeddings_are_lost),
    (8, _entry_that_nobody_uses_is_kept),
]


@pytest.mark.parametrize(
    ("number", "plant"), STATES, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_law_of_the_state_notices(number: int, plant: Callable[[Scheduler], None]) -> None:
    scheduler = _scheduler()
    hold_to_state_laws(scheduler)
    plant(scheduler)
    assert list(STATE_LAWS[number](scheduler))


def _more_is_spent(output: SchedulerOutput) -> None:
    output.token_budget = 2


def _nothing_is_scheduled(output: SchedulerOutput) -> None:
    output.num_scheduled_tokens["a"] = 0


def _decodes_are_miscounted(output: SchedulerOutput) -> None:
    output.decode_tokens += 1


def _order_is_turned(output: SchedulerOutput) -> None:
    output.num_scheduled_tokens = dict(reversed(output.num_scheduled_tokens.items()))


def _grant_is_unlisted(output: SchedulerOutput) -> None:
    output.scheduled_running_reqs.pop()


def _stop_is_untrue(output: SchedulerOutput) -> None:
    output.admission_stop = Verdict.QUEUES_EMPTY


def _running_stop_is_untrue(output: SchedulerOutput) -> None:
    output.running_stop = Verdict.BUDGET_SPENT


def _limit_is_untrue(output: SchedulerOutput) -> None:
    output.binding_limit = Limit.KV_BLOCKS


def _admissions_were_cancelled(output: SchedulerOutput) -> None:
    output.admissions_cancelled = 2


PASSES: list[tuple[int, Callable[[SchedulerOutput], None]]] = [
    (2, _more_is_spent),
    (2, _nothing_is_scheduled),
    (2, _decodes_are_miscounted),
    (3, _order_is_turned),
    (3, _grant_is_unlisted),
    (13, _stop_is_untrue),
    (13, _running_stop_is_untrue),
    (13, _limit_is_untrue),
    (14, _admissions_were_cancelled),
]


@pytest.mark.parametrize(
    ("number", "plant"), PASSES, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_law_of_a_pass_notices(number: int, plant: Callable[[SchedulerOutput], None]) -> None:
    scheduler = _scheduler()
    output = scheduler.schedule()
    hold_to_pass_laws(scheduler, output)
    plant(output)
    assert list(PASS_LAWS[number](scheduler, output))


def _told_of_a_wait(watch: Watch, run: Run) -> Run:
    watch.diary.waited[0]["seats_full"] += 1
    return run


def _changed(run: Run, *, passes: pa.Table | None = None, requests: pa.Table | None = None) -> Run:
    tables = RunTables(passes or run.passes, requests or run.requests, run.itl)
    return replace(run, tables=tables)


def _clock_goes_back(watch: Watch, run: Run) -> Run:
    del watch
    return _changed(run, passes=_with(run.passes, 0, "start_ns", 10**9))


def _token_comes_before_the_arrival(watch: Watch, run: Run) -> Run:
    del watch
    return _changed(run, requests=_with(run.requests, 1, "first_token_ns", 0))


def _request_is_lost(watch: Watch, run: Run) -> Run:
    del watch
    return _changed(run, requests=run.requests.slice(1))


def _request_ends_twice(watch: Watch, run: Run) -> Run:
    watch.ended[1] += 1
    return run


def _token_is_lost(watch: Watch, run: Run) -> Run:
    del watch
    return _changed(run, requests=_with(run.requests, 1, "output_tokens", 1))


def _admission_is_unlisted(watch: Watch, run: Run) -> Run:
    del watch
    return _changed(run, passes=_with(run.passes, 0, "admitted", 0))


def _hits_are_miscounted(watch: Watch, run: Run) -> Run:
    del watch
    return _changed(run, passes=_with(run.passes, 0, "prefix_hit_tokens", 4))


RUNS: list[tuple[int, Callable[[Watch, Run], Run]]] = [
    (10, _told_of_a_wait),
    (11, _clock_goes_back),
    (11, _token_comes_before_the_arrival),
    (15, _request_is_lost),
    (15, _request_ends_twice),
    (15, _token_is_lost),
    (16, _admission_is_unlisted),
    (16, _hits_are_miscounted),
]


def _with(table: pa.Table, row: int, name: str, value: object) -> pa.Table:
    rows = table.to_pylist()
    rows[row][name] = value
    return table.from_pylist(rows, schema=table.schema)


@pytest.mark.parametrize(
    ("number", "plant"), RUNS, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_law_of_a_run_notices(number: int, plant: Callable[[Watch, Run], Run]) -> None:
    trace, watch, run = _watched()
    hold_to_run_laws(trace, watch, run)
    run = plant(watch, run)
    assert list(RUN_LAWS[number](trace, watch, run))


def _watched() -> tuple[Trace, Watch, Run]:
    rows = [{"arrival_ns": 2_500_000 * n, "prompt_tokens": 5, "output_tokens": 3} for n in range(3)]
    flags: dict[str, Any] = {
        "async_scheduling": False,
        "block_size": 4,
        "max_num_seqs": 1,
        "max_model_len": 32,
    }
    case = Case(frozenset(), flags, rows)
    trace = case.trace()
    watch, run = watched_replay(trace, case.config(), case.replay_options())
    assert run is not None
    return trace, watch, run


def _watched_scheduler() -> WatchedScheduler:
    scheduler = WatchedScheduler(Watch(CONFIG), CONFIG)
    scheduler.add_request(a_request("a", 9, 5))
    step(scheduler)
    return scheduler


def test_law_9_notices_a_token_that_is_computed_twice() -> None:
    scheduler = _watched_scheduler()
    scheduler.running[0].num_computed_tokens -= 1
    with pytest.raises(LawBrokenError, match="law 9"):
        scheduler.schedule()


def test_law_14_notices_a_dry_run_that_touches_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def touching(scheduler: Scheduler, this_pass: object) -> int:
        del this_pass
        queue = scheduler.kv_cache.pool.free_queue
        queue.prepend_n(queue.take_bare(2)[::-1])
        return 0

    scheduler = _watched_scheduler()
    monkeypatch.setattr("watched.admissions_that_fit", touching)
    with pytest.raises(LawBrokenError, match=r"law 14.*changed the state"):
        scheduler.schedule()


def test_law_14_notices_a_wrong_count(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = _watched_scheduler()
    scheduler.add_request(a_request("b", 9, 5))
    monkeypatch.setattr("watched.admissions_that_fit", lambda _scheduler, _this_pass: 0)
    with pytest.raises(LawBrokenError, match=r"law 14.*0 would fit, 1 were admitted"):
        scheduler.schedule()


def test_law_17_notices_a_replay_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watched.MAX_PASSES", 5)
    with pytest.raises(LawBrokenError, match="law 17"):
        _watched()


def test_law_17_notices_a_stall_that_a_pass_would_end() -> None:
    scheduler = _watched_scheduler()
    scheduler.finish_requests(["a"], RequestStatus.FINISHED_ABORTED)
    scheduler.watch.last_output = scheduler.schedule()
    hold_to_a_true_stall(scheduler.watch)
    scheduler.add_request(a_request("b", 9, 5))
    with pytest.raises(LawBrokenError, match="law 17"):
        hold_to_a_true_stall(scheduler.watch)
