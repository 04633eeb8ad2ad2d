from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import example, given
from random_cases import SHORT_WAY, Case, cases
from run_laws import hold_to_a_true_stall, hold_to_run_laws
from watched import COST, watched_replay

from schedbench.errors import StallError
from schedbench.runner.run import Run, replay

SMALL = {"block_size": 2, "max_num_seqs": 2, "max_num_batched_tokens": 8, "max_model_len": 32}
ONE = {"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1}
FEW = {"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 8}


def _small(
    *rows: dict[str, object], events: tuple[dict[str, object], ...] = (), **flags: object
) -> Case:
    kinds = {"async_scheduling": False, "num_gpu_blocks": 18}
    return Case(frozenset(), SMALL | kinds | flags, list(rows), events=list(events))


def _grammar(
    delay_ns: int = 0, rejects_at: int | None = None, *, ok: bool = True
) -> dict[str, object]:
    return {"grammar": {"delay_ns": delay_ns, "ok": ok, "rejects_at": rejects_at}}


@given(cases())
@example(_small(ONE, ONE | {"output_tokens": 2}, ONE, num_speculative_tokens=1))
@example(
    _small(
        ONE | _grammar(ok=False),
        async_scheduling=True,
        events=({"at_ns": 9, "op": "abort", "request": 0},),
    )
)
@example(_small(FEW, num_speculative_tokens=1, spec_method="eagle", async_scheduling=True))
def test_every_law_holds_on_any_trace_with_any_flags(case: Case) -> None:
    hold_to_all_laws(case)


@given(cases(SHORT_WAY))
@example(_small(FEW, FEW | _grammar(rejects_at=4)))
@example(_small(FEW, FEW | _grammar(rejects_at=4), async_scheduling=True))
@example(_small(FEW, ONE | _grammar(3_250_000)))
@example(_small(ONE | {"output_tokens": 2}, ONE | _grammar(3_250_000), async_scheduling=True))
@example(_small(ONE | _grammar(ok=False), FEW, async_scheduling=True, max_num_seqs=1))
@example(
    _small(
        FEW,
        FEW,
        events=(
            {"at_ns": 1_500_000, "op": "pause", "state": "new"},
            {"at_ns": 4_000_000, "op": "resume"},
        ),
    )
)
def test_every_law_holds_where_decodes_go_the_short_way(case: Case) -> None:
    hold_to_all_laws(case)


def hold_to_all_laws(case: Case) -> None:
    trace, config, options = case.trace(), case.config(), case.replay_options()
    throttle_interval = case.throttle_interval
    watch, run = watched_replay(trace, config, options, throttle_interval=throttle_interval)
    if run is None:
        hold_to_a_true_stall(watch)
    else:
        hold_to_run_laws(trace, watch, run)
    if throttle_interval == 1:
        with nullcontext() if run else pytest.raises(StallError):
            assert _tables(replay(trace, config, COST, options=options)) == _tables(run)  # law 18


def _tables(run: Run | None) -> list[list[dict[str, object]]]:
    assert run is not None
    return [table.to_pylist() for table in (run.passes, run.requests, run.itl)]
