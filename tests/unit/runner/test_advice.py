"""Advice: whatever is printed was replayed, and improves what it is printed for."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any

import pytest
from explain_runs import COST, MS, Case

from schedbench.results.explain.less_waiting import less_waiting, less_waiting_sheet
from schedbench.runner.clock import parse_cost
from schedbench.runner.explain.rerun import Rerun, look_on
from schedbench.runner.explain.sooner import changes_for_classes, changes_for_run
from schedbench.runner.explain.trials import try_changes
from schedbench.runner.explain.waiting import WaitingWatcher, waiting_of
from schedbench.runner.run import replay

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.results.explain.waiting import Waiting


def random_case(seed: int) -> Case:
    """Small requests under a random pressure, some with priorities, adapters and grammars."""
    draw = random.Random(seed)  # noqa: S311 (a case of a test)
    rows = range(30)
    columns: dict[str, Any] = {
        "arrival_ns": [0, *sorted(draw.randrange(200) * MS for _ in rows[1:])],
        "prompt_tokens": [draw.choice((8, 60, 150, 400)) for _ in rows],
        "output_tokens": [draw.randrange(2, 60) for _ in rows],
        "client": [draw.randrange(3) for _ in rows],
    }
    flags: dict[str, Any] = {
        "num_gpu_blocks": draw.choice((40, 80, 400)),
        "max_model_len": 512,
        "max_num_batched_tokens": draw.choice((64, 256)),
        "max_num_seqs": draw.choice((4, 16, 64)),
        "watermark": draw.choice((0.0, 0.1)),
        "async_scheduling": draw.random() < 0.5,
    }
    if draw.random() < 0.6:
        columns["priority"] = [draw.choice((0, 0, 5, 9)) for _ in rows]
        flags["policy"] = draw.choice(("fcfs", "priority"))
    if draw.random() < 0.6:
        columns["lora"] = [draw.choice((None, 1, 1, 2, 3)) for _ in rows]
        flags["max_loras"] = draw.choice((1, 2))
    if draw.random() < 0.3:
        grammar = {"delay_ns": 25 * MS, "ok": True, "rejects_at": None}
        columns["grammar"] = [draw.choice((None, grammar)) for _ in rows]
    flags["max_num_seqs"] = min(flags["max_num_seqs"], flags["max_num_batched_tokens"])
    return Case(columns, flags)


def looked_at(rerun: Rerun) -> Waiting:
    watcher = WaitingWatcher(rerun)
    return waiting_of(watcher, look_on(rerun, watcher))


def mean_wait_ns(rerun: Rerun, changes: dict[str, Any], rows: tuple[int, ...] | None) -> int:
    config = dataclasses.replace(rerun.config, **changes)
    requests = replay(rerun.trace, config, parse_cost(COST), options=rerun.options).requests
    waits = [
        sum(ns for name, ns in each.items() if name.startswith("wait_"))
        for each in requests.to_pylist()
        if rows is None or each["row"] in rows
    ]
    return sum(waits) // len(waits)


@pytest.mark.parametrize("seed", range(3))
def test_every_change_that_is_printed_shortens_the_wait_that_it_is_printed_for(
    seed: int, tmp_path: Path
) -> None:
    rerun = random_case(seed).rerun(tmp_path)
    found = looked_at(rerun)
    what_ifs = try_changes(rerun, changes_for_classes(found, rerun), workers=1)
    helping = less_waiting(found, what_ifs)
    for each in helping:
        changes, rows = dict(each.tried.changes), each.target.rows
        assert mean_wait_ns(rerun, changes, rows) == each.now_ns
        assert each.now_ns < each.was_ns == mean_wait_ns(rerun, {}, rows)
    assert len(less_waiting_sheet(found, what_ifs).rows) == len(helping)
    of_run = try_changes(rerun, changes_for_run(rerun.run.summary, rerun), workers=1)
    before = mean_wait_ns(rerun, {}, None)
    for tried in of_run.of_use():
        assert mean_wait_ns(rerun, dict(tried.changes), None) < before


def test_what_an_adapter_waits_for_is_what_is_tried_for_it(tmp_path: Path) -> None:
    rows = range(40)
    case = Case(
        {
            "arrival_ns": [row * 4 * MS for row in rows],
            "prompt_tokens": [40] * 40,
            "output_tokens": [40] * 40,
            "lora": [1 if row % 8 else 2 for row in rows],
            "priority": [0 if row % 8 == 0 else 5 for row in rows],
        },
        {"max_loras": 1, "max_num_seqs": 8, "policy": "priority", "num_gpu_blocks": 400},
    )
    rerun = case.rerun(tmp_path)
    found = looked_at(rerun)
    what_ifs = try_changes(rerun, changes_for_classes(found, rerun), workers=1)
    best = less_waiting(found, what_ifs)[0]
    assert dict(best.tried.changes).keys() == {"max_loras"}
