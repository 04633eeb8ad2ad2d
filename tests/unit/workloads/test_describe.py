"""Laws of what is said about a trace."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.errors import UsageError
from schedbench.workloads.arrival_profile import find_tick, profile_arrivals
from schedbench.workloads.describe import describe, length_plots, rate_plot
from schedbench.workloads.findings import Oddity
from schedbench.workloads.generators.arrivals import Gamma, Poisson
from schedbench.workloads.generators.draws import Draws, Stream
from schedbench.workloads.generators.lengths import Fixed, Lengths, Lognormal, Uniform
from schedbench.workloads.generators.prefixes import Level, PrefixTree
from schedbench.workloads.generators.synth import synth
from schedbench.workloads.generators.workload import Sessions, Workload
from schedbench.workloads.plot import histogram_lines, sparkline
from schedbench.workloads.reuse import ideal_reuse
from schedbench.workloads.spread import spread
from schedbench.workloads.trace import Trace

S = 1_000_000_000


def trace_of(arrivals: list[int], prompt: int = 10, **columns: Any) -> Trace:  # noqa: ANN401
    block = columns.pop("hash_block_tokens", None)
    plain = {
        "arrival_ns": arrivals,
        "prompt_tokens": [prompt + i for i in range(len(arrivals))],
        "output_tokens": [5] * len(arrivals),
    }
    return Trace.from_columns({**plain, **columns}, hash_block_tokens=block)


def oddities(trace: Trace, max_model_len: int | None = None) -> set[Oddity]:
    return {finding.oddity for finding in describe(trace, max_model_len=max_model_len).findings}


def cached_by_hand(trace: Trace, block_size: int) -> int:
    """Hit tokens by a plain walk over sets of prefixes, token by token."""
    hash_block = trace.hash_block_tokens
    assert hash_block is not None
    cached: set[tuple[Any, ...]] = set()
    hits = 0
    for row in trace.table.to_pylist():
        identity = (row.get("lora"), row.get("cache_salt"))
        prompt = row["prompt_tokens"]

        def keys(
            ids: list[int], tokens: int, who: tuple[Any, ...] = identity
        ) -> list[tuple[Any, ...]]:
            # The scheduler block that ends at token e is named by the id over token e - 1.
            ends = range(block_size, tokens + 1, block_size)
            return [
                (who, ids[(e - 1) // hash_block], e) for e in ends if e <= len(ids) * hash_block
            ]

        own = keys(row["hash_ids"] or [], prompt)
        for key in own[: (prompt - 1) // block_size]:
            if key not in cached:
                break
            hits += block_size
        full = (row["hash_ids"] or [])[: prompt // hash_block] + (row.get("output_hash_ids") or [])
        cached.update(own)
        cached.update(keys(full, len(full) * hash_block))
    return hits


@pytest.mark.parametrize("block_size", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("salted", [False, True])
def test_ideal_reuse_is_what_a_cache_that_never_evicts_would_serve(
    block_size: int, salted: bool
) -> None:
    work = Workload(
        requests=300,
        lengths=Lengths(Uniform(1, 90), Uniform(1, 60)),
        prefixes=PrefixTree((Level(2, Fixed(70)), Level(3, Fixed(21)))),
        sessions=Sessions(turns=Uniform(1, 4)),
    )
    trace = synth(work)
    if salted:
        salts = [[None, 1, 2][i % 3] for i in range(300)]
        trace = Trace(trace.table.append_column("cache_salt", [salts]), 16)
    reuse = ideal_reuse(trace, block_size)
    assert reuse is not None
    assert reuse.hit_tokens == cached_by_hand(trace, block_size) > 0


def test_a_tail_block_counts_and_the_last_token_is_always_computed() -> None:
    same = trace_of(
        [0, 1], hash_ids=[[1, 2], [1, 2]], hash_block_tokens=512, prompt_tokens=[992, 992]
    )
    small, coarse = ideal_reuse(same, 16), ideal_reuse(same, 512)
    assert small is not None
    assert coarse is not None
    assert small.hit_tokens == 976  # 62 blocks fill the prompt; one token must be computed
    assert coarse.hit_tokens == 512


def test_large_ids_count_like_small_ones() -> None:
    small = [[1, 2], [1, 3], [1, 2]]
    large = [[2**64 - 1 - i for i in ids] for ids in small]
    hits = [
        ideal_reuse(trace_of([0, 1, 2], 40, hash_ids=ids, hash_block_tokens=16), 16)
        for ids in (small, large)
    ]
    assert hits[0] == hits[1]


def test_reuse_across_sessions_is_told_from_reuse_within_one() -> None:
    trace = trace_of(
        [0, 1, 2],
        prompt_tokens=[40, 60, 40],
        hash_ids=[[1, 2], [1, 2, 3], [1, 9]],
        hash_block_tokens=16,
        session=[7, 7, 8],
    )
    reuse = ideal_reuse(trace, 16)
    assert reuse is not None
    assert (reuse.hit_tokens, reuse.other_session_tokens) == (48, 16)
    assert (reuse.requests_with_hit, reuse.distinct_blocks, reuse.distinct_roots) == (2, 4, 1)


def test_block_sizes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UsageError, match="divide"):
        ideal_reuse(trace_of([0], 40, hash_ids=[[1, 2]], hash_block_tokens=16), 24)


def test_a_trace_without_ids_has_no_reuse_to_report() -> None:
    assert ideal_reuse(trace_of([0, 1])) is None


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_percentiles_are_values_that_occur(values: list[int]) -> None:
    found = spread(np.array(values))
    assert found is not None
    assert {found.p50, found.p90, found.p99} <= set(values)
    assert sum(value <= found.p90 for value in values) >= 0.9 * len(values)
    assert sum(value < found.p90 for value in values) < 0.9 * len(values)


@pytest.mark.parametrize(("shape", "cv"), [(1.0, 1.0), (0.25, 2.0)])
def test_burstiness_is_measured_as_it_was_generated(shape: float, cv: float) -> None:
    times = np.cumsum(Gamma(10.0, shape).gaps_ns(Draws(2, Stream.ARRIVALS), 100_000))
    profile = profile_arrivals(times - times[0])
    assert profile.rate_per_s == pytest.approx(10.0, rel=0.03)
    assert profile.gap_cv == pytest.approx(cv, rel=0.03)
    # A renewal process counted over long windows: variance over mean tends to CV squared.
    assert profile.dispersion[-1].index == pytest.approx(cv * cv, rel=0.2)
    assert profile.counts.sum() == 100_000


def test_a_jittering_tick_is_found_and_a_continuous_clock_has_its_resolution() -> None:
    rng = np.random.default_rng(1)
    jittered = np.repeat(np.arange(500) * 3_000 + rng.integers(-1, 2, 500), 3) * 1_000_000
    assert find_tick(np.diff(jittered)) == 3 * S
    whole_seconds = np.cumsum(rng.integers(0, 4, 1_000)) * S
    assert find_tick(np.diff(whole_seconds)) == S
    continuous = Poisson(5.0).gaps_ns(Draws(1, Stream.ARRIVALS), 1_000) // 1_000 * 1_000
    assert find_tick(continuous) == 1_000


def test_a_quiet_head_is_found_with_the_time_at_which_load_begins() -> None:
    head, busy = [i * 20 * S for i in range(30)], [600 * S + i * S // 2 for i in range(1_200)]
    findings = describe(trace_of(head + busy)).findings
    assert [finding.oddity for finding in findings] == [Oddity.LOW_RATE_HEAD]
    assert "--from 600s" in findings[0].text


def test_each_oddity_is_found_where_it_is_and_nowhere_else() -> None:
    steady = [i * S + (i * 7919 % 1000) * 1_000 for i in range(600)]
    assert oddities(trace_of(steady), 10_000) == set()
    assert oddities(trace_of([0, 0, 0])) == {Oddity.ALL_AT_ONCE}
    assert oddities(trace_of([i // 3 * S for i in range(900)])) == {Oddity.COARSE_TICK}
    gap = [t + 500 * S * (i > 300) for i, t in enumerate(steady)]
    assert oddities(trace_of(gap)) == {Oddity.HUGE_GAP}
    assert oddities(trace_of([0, 3 * 365 * 86_400 * S])) == {Oddity.SPANS_YEARS}
    twice = sorted([*steady, 100 * S])
    same = [10] * len(twice)
    twice[50] = twice[51]
    assert oddities(trace_of(twice, prompt_tokens=same)) == {Oddity.DUPLICATE_ROWS}
    cut = [min(100 + 7 * i % 3_001, 2_000) for i in range(600)]
    assert oddities(trace_of(steady, prompt_tokens=cut)) == {Oddity.LENGTHS_PILE_UP}


def test_prompts_and_outputs_beyond_the_context_are_counted_apart() -> None:
    found = describe(trace_of([0, S, 2 * S], 98), max_model_len=100).findings
    assert [(f.oddity, f.rows) for f in found] == [
        (Oddity.PROMPTS_TOO_LONG, 1),  # 100; 98 and 99 leave room for a token
        (Oddity.CONTEXT_PASSED, 2),
    ]


def test_demand_is_tokens_over_duration_with_and_without_the_cache() -> None:
    trace = trace_of(
        [0, 2 * S],
        prompt_tokens=[40, 40],
        hash_ids=[[1, 2], [1, 2]],
        hash_block_tokens=16,
    )
    demand = describe(trace).demand
    assert demand is not None
    assert (demand.prompt, demand.computed_prompt, demand.output) == (40.0, 24.0, 5.0)


def test_sessions_and_their_closed_loop_rows_are_counted() -> None:
    found = describe(synth(Workload(requests=200, sessions=Sessions(turns=Fixed(2))))).sessions
    assert found is not None
    assert found.closed_loop == 200 - found.sessions
    assert found.turns is not None
    assert found.turns.max == 2


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=80))
def test_a_sparkline_is_blank_only_at_zero_and_full_only_near_the_top(counts: list[int]) -> None:
    line = sparkline(np.array(counts))
    assert len(line) == len(counts)
    for count, mark in zip(counts, line, strict=True):
        assert (mark == " ") == (count == 0)
        assert (mark == "█") == (count > 0 and count > max(counts) * 7 / 8)


@given(st.lists(st.integers(1, 10**6), min_size=1))
def test_a_histogram_counts_every_value_once(values: list[int]) -> None:
    lines = histogram_lines(np.array(values), width=10)
    assert sum(int(line.rsplit("  ", 1)[1].replace(",", "")) for line in lines) == len(values)
    assert len({len(line.rsplit("  ", 1)[0]) for line in lines}) == 1


def test_plots_are_lines_of_text() -> None:
    line, scale = rate_plot(profile_arrivals(np.array([0, 0, 30 * S, 59 * S, 60 * S])))
    assert (line[0], line[1], len(line)) == ("█", " ", 60)
    assert scale == "0 s to 60 s, up to 2 requests/s"
    assert rate_plot(describe(trace_of([0, 0])).arrivals) == []
    trace = synth(Workload(requests=500, lengths=Lengths(Lognormal(100, 1.0), Fixed(7))))
    assert length_plots(trace)["output_tokens"] == ["4-7  " + "█" * 40 + "  500"]
