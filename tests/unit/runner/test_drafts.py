"""What a summary says of drafts is what a watcher sees the scheduler do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from explain_runs import MS, Case, plain

from schedbench.results.drafts import drafts_told
from schedbench.runner.explain.rerun import look_on
from schedbench.runner.watch import Watcher

if TYPE_CHECKING:
    from pathlib import Path

    from schedbench.runner.replay import Replay
    from schedbench.sched.output import SchedulerOutput

CROWD = plain(
    60,
    arrival_ns=[row // 10 * MS for row in range(60)],
    prompt_tokens=[3 + row % 5 for row in range(60)],
)
FULL = {"max_num_batched_tokens": 75, "max_num_seqs": 32, "max_model_len": 1024}
VERSIONS = pytest.mark.parametrize("version", ["0.26.0", "0.33.0"])


class DraftWatcher(Watcher):
    """Counts drafts that a scheduled decode came with, and lost."""

    def __init__(self) -> None:
        self.came: dict[str, int] = {}
        self.lost = 0
        self.left_out = 0

    def begins(self, replay: Replay) -> None:
        self.came = {
            request.request_id: request.num_spec_tokens for request in replay.scheduler.running
        }

    def scheduled(self, replay: Replay, output: SchedulerOutput) -> None:
        for request in output.scheduled_running_reqs:
            taken = output.scheduled_spec_decode_tokens.get(request.request_id, 0)
            self.lost += self.came.get(request.request_id, taken) - taken
        if output.running_stop.label == "budget_spent" and output.scheduled_spec_decode_tokens:
            chosen = output.num_scheduled_tokens
            self.left_out += sum(r.request_id not in chosen for r in replay.scheduler.running)


def watched(case: Case, folder: Path) -> tuple[dict[str, Any], DraftWatcher]:
    run, watcher = case.stored(folder), DraftWatcher()
    look_on(case.rerun(folder / "again"), watcher)
    return run.summary, watcher


@VERSIONS
@pytest.mark.parametrize("method", ["eagle", "draft_model"])
def test_drafts_that_are_cut_off_are_those_that_decodes_lose_in_full_passes(
    method: str, version: str, tmp_path: Path
) -> None:
    flags = {"num_speculative_tokens": 6, "spec_method": method, "vllm_version": version}
    (tmp_path / "again").mkdir()
    summary, watcher = watched(Case(CROWD, {**FULL, **flags}), tmp_path)
    found = summary["drafts"]
    assert found["cut_tokens"] == watcher.lost > 0
    assert found["left_out"] == watcher.left_out
    assert "cut off" in drafts_told(summary)


def test_drafts_that_fit_everywhere_are_said_to_shrink_nothing(tmp_path: Path) -> None:
    flags = {**FULL, "max_num_batched_tokens": 4096, "num_speculative_tokens": 2}
    told = drafts_told(Case(CROWD, flags).stored(tmp_path).summary)
    assert told == "take nothing from others: no pass with drafts was full · none cut off"
