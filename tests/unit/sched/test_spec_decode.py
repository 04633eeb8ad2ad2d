"""Drafts: what a grant takes of them, what a padded decode needs, what a rejection takes back."""

from __future__ import annotations

import pytest
from stepping import a_request

from schedbench.sched.config import SchedulerConfig
from schedbench.sched.schedule_pass import SchedulePass
from schedbench.sched.spec_decode import padding, take_back_rejected, take_drafts
from schedbench.sched.verdicts import Verdict

DRAFTS = 3


@pytest.mark.parametrize("placeholders", [0, 2, 5])
@pytest.mark.parametrize("computed", [0, 1, 2, 20])
def test_a_rejection_takes_back_what_was_counted_and_nothing_of_a_preempted_request(
    computed: int, placeholders: int
) -> None:
    request = a_request("a", 30, 9)
    request.num_computed_tokens, request.num_output_placeholders = computed, placeholders
    take_back_rejected(request, num_drafts=DRAFTS, num_sampled=3)  # two of three, and one's own
    assert request.num_computed_tokens == (computed - 1 if computed else 0)
    assert request.num_output_placeholders == (placeholders - 1 if placeholders else 0)


@pytest.mark.parametrize("granted", range(1, 7))
def test_drafts_are_scheduled_as_far_as_a_grant_covers_them_and_the_others_are_lost(
    granted: int,
) -> None:
    request = a_request("a", 10, 9)
    request.num_computed_tokens, request.num_spec_tokens = 9, DRAFTS
    assert take_drafts(request, granted) == min(granted - 1, DRAFTS)
    assert request.num_spec_tokens == 0


@pytest.mark.parametrize(
    ("version", "most"), [("0.26.0", Verdict.PADDED_DECODE_UNFIT), ("0.33.0", 0)]
)
def test_a_padded_decode_ends_within_the_longest_sequence(
    version: str, most: int | Verdict
) -> None:
    """0.33.0 leaves room for the token that is sampled after the drafts, 0.26.0 does not."""
    config = SchedulerConfig(
        vllm_version=version, num_speculative_tokens=DRAFTS, spec_method="eagle",
        max_model_len=40, max_num_seqs=4,
    )  # fmt: skip
    this_pass = SchedulePass(100, 0, threshold=0)
    this_pass.running.append(a_request("b", 4, 9))
    room = 1 if config.behaviour.pad_room else 0
    found = [padding(1, computed, this_pass, config) for computed in range(28, 40)]
    fits = [computed + 1 + DRAFTS + room <= 40 for computed in range(28, 40)]
    assert found == [DRAFTS if each else most for each in fits]
    this_pass.token_budget = DRAFTS
    assert padding(1, 8, this_pass, config) is Verdict.PADDED_DECODE_UNFIT
    this_pass.token_budget = DRAFTS + 1
    assert padding(1, 8, this_pass, config) == DRAFTS
