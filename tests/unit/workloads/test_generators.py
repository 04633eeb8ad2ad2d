"""Laws of the generators."""

import doctest
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbench.errors import OutputError, UsageError
from schedbench.workloads.generators.arrivals import AllAtOnce, FixedRate, Gamma, Poisson
from schedbench.workloads.generators.draws import Choice, Draws, Stream
from schedbench.workloads.generators.lengths import Empirical, Fixed, Lengths, Lognormal, Uniform
from schedbench.workloads.generators.options import (
    parse_arrivals,
    parse_choice,
    parse_distribution,
    parse_prefixes,
)
from schedbench.workloads.generators.portable_math import exp, log
from schedbench.workloads.generators.prefixes import Level, PrefixTree
from schedbench.workloads.generators.synth import synth, synth_to_file
from schedbench.workloads.generators.workload import Sessions, Workload
from schedbench.workloads.reuse import ideal_reuse
from schedbench.workloads.store import read_trace
from schedbench.workloads.trace import Trace

RICH = Workload(
    requests=2_000,
    seed=7,
    arrivals=Gamma(20.0, 0.25),
    lengths=Lengths(Lognormal(200, 1.0, 1, 4_000), Lognormal(100, 1.0, 1, 1_000)),
    prefixes=PrefixTree((Level(3, Fixed(100)), Level(2, Uniform(1, 90))), zipf=1.0),
    sessions=Sessions(turns=Uniform(1, 5), followup=Fixed(30), context_tokens=5_000),
    priority=Choice((0, -1)),
    client=Choice((0, 1), (3.0, 1.0)),
    lora=Choice((0, 1, 2)),
)

arrivals = st.sampled_from([Poisson(5.0), Gamma(5.0, 0.3), Gamma(5.0, 4.0), FixedRate(5.0)])
lengths = st.sampled_from([Fixed(40), Uniform(1, 200), Lognormal(60, 1.0, 3, 500)])
trees = st.none() | st.builds(
    PrefixTree,
    st.lists(
        st.builds(Level, st.integers(1, 3), st.builds(Fixed, st.integers(1, 70))), min_size=1
    ).map(lambda levels: tuple(levels[:3])),
    st.sampled_from([0.0, 1.1]),
)
sessions = st.none() | st.builds(Sessions, turns=st.sampled_from([Fixed(1), Uniform(1, 7)]))
workloads = st.builds(
    Workload,
    requests=st.integers(1, 300),
    seed=st.integers(0, 2**64),
    arrivals=arrivals,
    lengths=st.builds(Lengths, lengths, lengths),
    prefixes=trees,
    sessions=sessions,
    hash_block_tokens=st.sampled_from([1, 16, 17]),
)


def ids_of(trace: Trace, name: str) -> list[list[int]]:
    return [ids or [] for ids in trace.table.column(name).to_pylist()]


@settings(max_examples=40, deadline=None)
@given(workloads)
def test_any_workload_makes_a_trace_that_passes_every_check(work: Workload) -> None:
    # Making a Trace checks order, lengths, one prefix per id, turns and `after`.
    assert synth(work).num_requests == work.requests


def test_a_seed_stands_for_the_same_rows_on_every_machine() -> None:
    # Pinned: a change of these digests is a change of what every recorded seed means.
    assert synth(RICH).digest == (
        "sha256:be643be341a75e4b53181aff80cd686b1d27f0c39ca5cdbb3425d4988ee2dd0d"
    )
    assert synth(Workload(requests=1_000, seed=1)).digest == (
        "sha256:21eda75b177e9a8b2210607c040b0e69627d2557057ae5b186856b68eb9d7030"
    )


def test_another_seed_gives_other_rows() -> None:
    assert synth(Workload(requests=10, seed=1)).digest != synth(Workload(requests=10)).digest


@settings(max_examples=20, deadline=None)
@given(workloads, st.integers(1, 300))
def test_a_longer_trace_begins_with_the_shorter_one(work: Workload, more: int) -> None:
    longer = {name: getattr(work, name) for name in work.__slots__} | {
        "requests": work.requests + more
    }
    shorter = synth(work).table
    head = synth(Workload(**longer)).table.slice(0, work.requests)
    assert head.select(shorter.column_names).equals(shorter)


def test_writing_in_parts_gives_the_digest_of_the_trace_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedbench.workloads.generators.synth._MOST_IDS", 5_000)
    path = tmp_path / "rich.parquet"
    digest = synth_to_file(RICH, path)
    stored = read_trace(path)
    assert digest == stored.stored_digest == stored.digest == synth(RICH).digest
    assert stored.provenance == RICH.provenance()
    assert [file.name for file in tmp_path.iterdir()] == ["rich.parquet"]


def test_sessions_cross_the_blocks_they_are_drawn_in(tmp_path: Path) -> None:
    # 16,384 sessions a block: 40,000 rows need several, and turns wait from one to the next.
    work = Workload(requests=40_000, arrivals=Poisson(50.0), sessions=Sessions(turns=Uniform(1, 2)))
    trace = synth(work)
    session, turn, after = (trace.column(name) for name in ("session", "turn", "after"))
    assert session is not None
    assert turn is not None
    assert after is not None
    later = turn > 0
    assert session.max() > 2 * 8_192
    assert (after[later] >= 0).all()
    assert (session[after[later]] == session[later]).all()
    assert (turn[after[later]] == turn[later] - 1).all()
    assert synth_to_file(work, tmp_path / "t.parquet") == trace.digest


def test_a_prompt_repeats_all_that_was_said_before_it() -> None:
    trace = synth(RICH)
    prompt, output, after = (
        trace.table.column(name).to_pylist() for name in ("prompt_tokens", "output_tokens", "after")
    )
    hash_ids, answer_ids = ids_of(trace, "hash_ids"), ids_of(trace, "output_hash_ids")
    followed = [(row, before) for row, before in enumerate(after) if before is not None]
    assert followed
    for row, before in followed:
        said = hash_ids[before] + answer_ids[before]
        assert prompt[row] == prompt[before] + output[before] + 30
        assert hash_ids[row][: len(said)] == said
        assert len(said) == (prompt[before] + output[before]) // 16


def test_sessions_share_exactly_the_blocks_of_their_common_path() -> None:
    tree = PrefixTree((Level(2, Fixed(40)), Level(2, Fixed(40))))
    work = Workload(
        requests=200, prefixes=tree, lengths=Lengths(Fixed(50), Fixed(1)), hash_block_tokens=16
    )
    prompts = ids_of(synth(work), "hash_ids")
    heads = {tuple(ids[:5]) for ids in prompts}  # 80 shared tokens: 5 blocks
    assert len(heads) == 4  # leaves
    # 40 tokens: two blocks of the system prompt; the third one reaches into the document
    assert len({head[:2] for head in heads}) == 2
    assert len({head[2] for head in heads}) == 4
    own = [ids[5] for ids in prompts]
    assert len(set(own)) == len(own)


def test_reuse_of_a_shared_system_prompt_is_what_arithmetic_says() -> None:
    tree = PrefixTree((Level(1, Fixed(160)),))
    work = Workload(requests=101, prefixes=tree, lengths=Lengths(Fixed(100), Fixed(1)))
    reuse = ideal_reuse(synth(work), 16)
    assert reuse is not None
    assert reuse.hit_tokens == 100 * 160  # every request but the first


@pytest.mark.parametrize(("context", "turns"), [(399, 3), (400, 4)])
def test_a_session_ends_before_the_turn_that_passes_the_context(context: int, turns: int) -> None:
    # 50 tokens from the user and 50 back: turn t fills 100 (t + 1) tokens.
    chats = Sessions(count=10, turns=Fixed(20), context_tokens=context)
    work = Workload(requests=10 * turns, sessions=chats, lengths=Lengths(Fixed(50), Fixed(50)))
    assert synth(work).table.column("turn").to_pylist().count(turns - 1) == 10


@pytest.mark.parametrize(
    ("arrivals", "cv"),
    [(Poisson(4.0), 1.0), (Gamma(4.0, 0.25), 2.0), (Gamma(4.0, 4.0), 0.5), (FixedRate(4.0), 0.0)],
)
def test_arrivals_keep_their_rate_and_coefficient_of_variation(
    arrivals: Poisson | Gamma | FixedRate, cv: float
) -> None:
    gaps = arrivals.gaps_ns(Draws(5, Stream.ARRIVALS), 200_000) / 1e9
    assert gaps.mean() == pytest.approx(1 / 4, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.02)


def test_everything_at_once_arrives_at_time_zero() -> None:
    trace = synth(Workload(requests=50, arrivals=AllAtOnce()))
    assert set(trace.table.column("arrival_ns").to_pylist()) == {0}


def test_lognormal_draws_again_outside_its_bounds_instead_of_clipping() -> None:
    drawn = Lognormal(100, 1.0, 50, 200).draw(Draws(1, Stream.PROMPT), 100_000)
    assert (drawn.min(), drawn.max()) == (50, 200)
    assert np.count_nonzero(drawn == 200) < np.count_nonzero(drawn == 190) * 1.3
    whole = Lognormal(100, 1.0).draw(Draws(1, Stream.PROMPT), 100_000)
    assert np.median(whole) == pytest.approx(100, rel=0.02)
    assert np.log(whole).std() == pytest.approx(1.0, rel=0.02)


def test_bounds_that_hardly_any_draw_meets_are_refused() -> None:
    with pytest.raises(UsageError, match="widen"):
        Lognormal(10, 0.1, 5_000, 6_000).draw(Draws(1, Stream.PROMPT), 10)


def test_empirical_lengths_keep_prompt_and_output_together() -> None:
    source = Trace.from_columns(
        {"arrival_ns": [0, 1, 2], "prompt_tokens": [10, 20, 30], "output_tokens": [1, 2, 3]}
    )
    drawn = synth(Workload(requests=500, lengths=Empirical(source)))
    pairs = zip(
        *(drawn.table.column(n).to_pylist() for n in ("prompt_tokens", "output_tokens")),
        strict=True,
    )
    assert set(pairs) == {(10, 1), (20, 2), (30, 3)}
    assert drawn.provenance["options"]["lengths"] == {"kind": "empirical", "digest": source.digest}


def test_sessions_that_hold_too_few_requests_are_an_error_and_not_a_shorter_trace() -> None:
    few = Sessions(count=3, turns=Fixed(2))
    at_once = {"arrivals": AllAtOnce(), "sessions": few}
    assert synth(Workload(requests=6, **at_once)).num_requests == 6  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the 3 sessions hold 6 requests"):
        synth(Workload(requests=7, **at_once))  # type: ignore[arg-type]


def test_own_log_and_exp_agree_with_the_library_to_the_last_bits() -> None:
    x = Draws(3, Stream.PROMPT).uniform(100_000)
    np.testing.assert_allclose(log(x), np.log(x), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(exp(x * 1_400 - 700), np.exp(x * 1_400 - 700), rtol=1e-15)


def test_options_in_text_mean_the_same_as_in_python() -> None:
    assert parse_arrivals("gamma:rate=4,burstiness=0.25") == Gamma(4, 0.25)
    assert parse_arrivals("all-at-once") == AllAtOnce()
    assert parse_distribution("128") == Fixed(128)
    assert parse_distribution("lognormal:median=512,sigma=1,high=8192") == Lognormal(
        512, 1, high=8192
    )
    assert parse_prefixes("4x1024/8x256,zipf=1") == PrefixTree(
        (Level(4, Fixed(1024)), Level(8, Fixed(256))), zipf=1
    )
    assert parse_choice("0=3,-1=1") == Choice((0, -1), (3.0, 1.0))


@pytest.mark.parametrize(
    ("parse", "text", "named"),
    [
        (parse_arrivals, "poison:rate=4", "poisson, gamma"),
        (parse_arrivals, "poisson", "'rate'"),
        (parse_arrivals, "poisson:rate=0", "rate 0"),
        (parse_arrivals, "poisson:rate=nan", "rate nan"),
        (parse_arrivals, "gamma:rate=1,burst=2", "'burst'"),
        (parse_distribution, "uniform:low=9,high=1", "9 to 1"),
        (parse_distribution, "uniform:low=0.5,high=1", "0.5"),
        (parse_distribution, "lognormal:median=x,sigma=1", "median=x"),
        (parse_prefixes, "4x", "4x1024"),
        (parse_prefixes, "4x10,skew=1", "zipf"),
        (parse_choice, "a", "'a'"),
        (parse_choice, "0=-1", "positive"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    parse: Callable[[str], object], text: str, named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        parse(text)


def test_a_file_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        synth_to_file(Workload(requests=1), tmp_path / "nowhere" / "t.parquet")


def test_the_page_on_generators_shows_what_it_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "generators.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 20
    assert result.failed == 0
