"""Both facts about a wait: what ended admission, and what would hold the request first."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
from explain_runs import CASES, Case, plain

from schedbench.results.arrays import ints
from schedbench.results.explain.holds import BEHIND_THE_HEAD, DECODES, own_holds
from schedbench.results.explain.waiting import total_waits, waits_of
from schedbench.runner.explain.own_hold import hold_of
from schedbench.runner.explain.queue_clock import loras_of
from schedbench.runner.explain.rerun import look_on
from schedbench.runner.explain.waiting import WaitingWatcher, waiting_of

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.results.explain.waiting import Waiting
    from schedbench.runner.explain.rerun import Rerun
    from schedbench.runner.replay import Replay
    from schedbench.sched.output import SchedulerOutput

ROWS = range(40)
MORE = {
    "adapters behind running slots": Case(
        plain(lora=[row % 4 or None for row in ROWS]),
        {"num_gpu_blocks": 4000, "max_loras": 1, "max_num_seqs": 6},
    ),
    "adapters, urgent ones too": Case(
        plain(lora=[row % 4 or None for row in ROWS], priority=[row % 3 for row in ROWS]),
        {"num_gpu_blocks": 60, "max_loras": 2, "policy": "priority", "max_num_seqs": 8},
    ),
    "no gate, small budget": Case(
        plain(), {"num_gpu_blocks": 40, "scheduler_reserve_full_isl": False,
                  "max_num_batched_tokens": 64, "max_num_seqs": 32, "max_model_len": 512},
    ),
    "a threshold": Case(
        plain(), {"num_gpu_blocks": 60, "long_prefill_token_threshold": 48, "watermark": 0.1,
                  "max_num_batched_tokens": 96, "max_num_seqs": 32, "max_model_len": 512},
    ),
    "images": Case(
        plain(
            encoder_inputs=[
                [{"offset": 8, "tokens": 32, "hash": row, "embeds": None}] if row % 2 else None
                for row in ROWS
            ]
        ),
        {"num_gpu_blocks": 400, "max_num_encoder_input_tokens": 64, "encoder_cache_size": 64},
    ),
    "whole prompts": Case(
        plain(), {"num_gpu_blocks": 400, "enable_chunked_prefill": False,
                  "max_num_batched_tokens": 256, "max_model_len": 256, "max_num_seqs": 32},
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("case", (CASES | MORE).values(), ids=CASES | MORE)


def answer(case: Case, folder: Path) -> Waiting:
    rerun = case.rerun(folder)
    watcher = WaitingWatcher(rerun)
    return waiting_of(watcher, look_on(rerun, watcher))


@EVERY
def test_both_facts_add_up_to_the_waits_of_each_request(case: Case, tmp_path: Path) -> None:
    rerun = case.rerun(tmp_path)
    watcher = WaitingWatcher(rerun)
    found = waiting_of(watcher, look_on(rerun, watcher)).holds
    requests = rerun.run.requests()
    waits, totals = waits_of(requests), total_waits(requests)
    for place, row in enumerate(ints(requests, "row").tolist()):
        ended: Counter[str] = Counter()
        for (verdict, _), ns in found.total([row]).items():
            ended[verdict] += ns
        assert ended == {name: ns[place] for name, ns in waits.items() if ns[place]}
        assert ended.total() == totals[place]


class LookingAtEachRequest(WaitingWatcher):
    """Asks the admission loop itself, of every request in the queues after every pass."""

    needs_every_pass = True

    def __init__(self, rerun: Rerun) -> None:
        super().__init__(rerun)
        self.needs_every_pass = True
        self.diary: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._then: dict[int, tuple[str, str]] = {}
        self._then_ns = 0

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        super().scheduled(replay, output)
        for row, pair in self._then.items():
            self.diary[row][pair] += replay.now_ns - self._then_ns
        scheduler, stop, self._then_ns = replay.scheduler, output.admission_stop, replay.now_ns
        aside = {request.tag.row: (why.label, why.label) for request, why in output.set_aside}
        loras = loras_of(scheduler, output)
        self._then = {
            each.tag.row: (stop.label, hold_of(scheduler, each, stop, loras))
            for each in scheduler.queues
        } | aside


IN_BETWEEN = ("streaming", "turns", "aborted")  # requests come and go between two passes


@pytest.mark.parametrize("name", [name for name in CASES | MORE if name not in IN_BETWEEN])
def test_what_would_hold_a_request_is_what_the_admission_loop_finds_of_it(
    name: str, tmp_path: Path
) -> None:
    rerun = (CASES | MORE)[name].rerun(tmp_path)
    watcher = LookingAtEachRequest(rerun)
    found = waiting_of(watcher, look_on(rerun, watcher)).holds
    for row, pairs in watcher.diary.items():
        told = found.total([row])
        told.pop(("pass_in_flight", "pass_in_flight"), None)
        assert told == +pairs


@EVERY
def test_the_short_way_gives_the_same_facts(case: Case, tmp_path: Path) -> None:
    rerun = case.rerun(tmp_path)
    fast, slow = WaitingWatcher(rerun), LookingAtEachRequest(rerun)
    answers = [waiting_of(each, look_on(rerun, each)) for each in (fast, slow)]
    assert answers[0].holds == answers[1].holds
    assert answers[0].held_seats == answers[1].held_seats


def test_small_requests_behind_a_big_one_are_held_by_nothing_but_its_turn(tmp_path: Path) -> None:
    case = Case(
        {
            "arrival_ns": [0, 0, 0, 0],
            "prompt_tokens": [96, 80, 8, 8],
            "output_tokens": [50, 5, 5, 5],
        },
        {"num_gpu_blocks": 11, "max_model_len": 512},
    )
    found = answer(case, tmp_path)
    (verdict,) = {pair[0] for pair in found.holds.total([2, 3]) if pair[0] != "pass_in_flight"}
    assert verdict.startswith("kv_blocks_short")
    small = own_holds(found.holds.total([2, 3]))  # until the first one has grown into all blocks
    assert small[BEHIND_THE_HEAD] > 4 * (small.total() - small[BEHIND_THE_HEAD])
    assert set(own_holds(found.holds.total([1]))) <= {verdict, "pass_in_flight"}
    assert set(found.holds.behind) == {1}


def test_the_prompt_that_took_the_whole_budget_is_named(tmp_path: Path) -> None:
    case = Case(
        {"arrival_ns": [0, 0], "prompt_tokens": [300, 8], "output_tokens": [16, 16]},
        {"max_num_batched_tokens": 32, "max_num_seqs": 32, "num_gpu_blocks": 100},
    )
    found = answer(case, tmp_path)
    assert set(found.holds.taken_by) == {0}
    assert found.holds.taken_by[0] == found.holds.total([1])["budget_spent", "budget_spent"]


def test_where_decodes_spend_the_budget_no_prompt_is_named(tmp_path: Path) -> None:
    rows = 12
    case = Case(
        {"arrival_ns": [0] * rows, "prompt_tokens": [2] * rows, "output_tokens": [30] * rows},
        {"max_num_batched_tokens": 8, "max_num_seqs": 8, "num_gpu_blocks": 200},
    )
    found = answer(case, tmp_path).holds
    assert DECODES in found.taken_by or not found.taken_by


def test_an_adapter_without_a_slot_is_what_holds_a_request_though_running_slots_end_the_loop(
    tmp_path: Path,
) -> None:
    found = answer(MORE["adapters behind running slots"], tmp_path).holds.total()
    assert found["seats_full", "lora_slots_full"] > 0
