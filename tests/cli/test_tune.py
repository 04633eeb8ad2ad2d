import json
import re
import shlex
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from cli_runs import Cli
from hypothesis import given
from hypothesis import strategies as st

from schedbench.cli.serve_args import parse_serve_args
from schedbench.cli.serve_line import serve_line
from schedbench.cli.tune_space import parse_space
from schedbench.cli.values import FLAGS, parse_value
from schedbench.errors import UsageError
from schedbench.results.rate_view import TriedRate, rate_view
from schedbench.results.report.sweep_folder import open_sweep
from schedbench.runner.sweep import Outcome, outcome_of
from schedbench.runner.sweep_worker import Job
from schedbench.runner.tune.space import Choices, Range

SLO = ("--slo", "ttft:100ms,tpot:20ms")
SPACE = ("--max-num-seqs", "1:64", "--num-gpu-blocks", "80", "--max-model-len", "1024")


def test_a_search_ends_with_the_winner_the_front_what_mattered_and_the_line(
    cli: Cli, small: Path
) -> None:
    ran = cli("tune", small, *SLO, *SPACE, "--replays", "12", "--jobs", "1")
    assert ran.code == 0
    (winner,) = re.findall(r"^winner\s+--max-num-seqs (\d+)$", ran.out, re.MULTILINE)
    assert "front" in ran.out
    assert "how much it mattered" in ran.out
    flags = f"--max-model-len 1024 --num-gpu-blocks-override 80 --max-num-seqs {winner}"
    assert f"vllm serve MODEL {flags}" in " ".join(ran.out.split())
    assert "note: time: roofline for llama-3.1-8b on H100-SXM: an estimate" in ran.err


def test_the_winner_is_the_best_of_the_points_in_the_json(cli: Cli, small: Path) -> None:
    ran = cli("tune", small, *SLO, *SPACE, "--replays", "8", "--no-store", "--json", "-j", "1")
    found = json.loads(ran.out)
    values = [point["summary"]["goodput"]["requests_per_s"] for point in found["points"]]
    assert found["winner"]["value"] == max(values)
    assert list(Path().iterdir()) == [Path("small.parquet")]


def test_every_run_is_kept_and_the_search_can_go_on(cli: Cli, small: Path) -> None:
    asked = ("tune", small, *SLO, *SPACE, "--jobs", "1")
    cli(*asked, "--replays", "6", "--out", "t")
    runs = sorted(Path("t/points").iterdir())
    assert len(runs) == 6
    assert cli("compare", *runs[:2]).code == 0
    ran = cli(*asked, "--replays", "10", "--resume", "t")
    assert ran.code == 0
    assert "10 points replayed" in ran.out
    assert len(list(Path("t/points").iterdir())) == 10


def test_another_search_is_not_taken_up(cli: Cli, small: Path) -> None:
    cli("tune", small, *SLO, *SPACE, "--replays", "4", "--out", "t", "-j", "1")
    other = ("--max-num-seqs", "1:32", *SPACE[2:])
    ran = cli("tune", small, *SLO, *other, "--replays", "4", "--resume", "t")
    assert ran.code == 2
    assert "a search of other space" in ran.err


def test_a_search_goes_on_with_its_folder_alone_and_one_that_ended_replays_nothing(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("--max-num-seqs", "4,8,1024", *SPACE[2:])
    first = cli("tune", small, *SLO, *few, "--replays", "9", "--out", "t", "-j", "1")
    runs = sorted(Path("t/points").iterdir())
    assert len(runs) == 3
    with monkeypatch.context() as patch:
        patch.setattr("schedbench.runner.tune.search.replay_job", None)
        ended = cli("tune", "--resume", "t")
    assert (ended.code, ended.out) == (0, first.out)
    assert sorted(Path("t/points").iterdir()) == runs
    more = cli("tune", "--resume", "t", "--replays", "12")
    assert more.code == 0


def test_of_equal_winners_the_nearest_to_the_default_wins_and_the_rest_is_named(
    cli: Cli, small: Path
) -> None:
    space = ("--max-num-seqs", "60,200,500", "--num-gpu-blocks", "4000")
    ran = cli("tune", small, *SLO, *space, "--replays", "3", "--no-store", "-j", "1")
    assert re.search(r"^winner\s+--max-num-seqs 500$", ran.out, re.MULTILINE)
    assert re.search(r"^as good\s+--max-num-seqs 60 to 500: the nearest", ran.out, re.MULTILINE)
    assert re.search(r"^TTFT p99\s+\S+ \w+; it was \S+ \w+$", ran.out, re.MULTILINE)


def once_then_interrupt() -> Callable[..., Outcome]:
    """The outcome of the first replay, and Ctrl-C in the place of the second."""
    calls = count()

    def outcome(job: Job, result: dict[str, object] | None) -> Outcome:
        if next(calls):
            raise KeyboardInterrupt
        return outcome_of(job, result)

    return outcome


def test_an_interrupted_search_says_what_is_best_so_far(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("schedbench.cli.tune_run.LiveLine.show", interrupt)
    ran = cli("tune", small, *SLO, *SPACE, "--replays", "20", "--out", "t", "-j", "1")
    assert ran.code == 130
    assert re.search(r"\d+ of 20 points, .* best goodput .*: max-num-seqs=\d+", ran.err)
    assert "--resume t" in ran.err
    with monkeypatch.context() as patch:
        patch.setattr("schedbench.runner.tune.search.outcome_of", once_then_interrupt())
        early = cli("tune", small, *SLO, *SPACE, "--replays", "20", "--no-store", "-j", "1")
    assert early.code == 130
    assert re.search(r"1 of 20 points, .* best goodput .*: max-num-seqs=\d+", early.err)
    rate = ("--goal", "max-rate", "--slo", "ttft:100s", "--max-num-seqs", "16", *SPACE[2:])
    first = cli("tune", small, *rate, "--no-store")
    assert first.code == 130
    assert "1 replays; the highest that holds is --speedup 1" in first.err


def test_a_search_in_which_no_limit_ever_binds_means_nothing_and_says_so(
    cli: Cli, small: Path
) -> None:
    space = ("--max-num-seqs", "100:200", "--num-gpu-blocks", "4000")
    ran = cli("tune", small, *SLO, *space, "--replays", "4", "--no-store", "-j", "1")
    assert "no limit was ever binding" in ran.err


def test_the_highest_rate_is_found_with_what_was_tried(cli: Cli, small: Path) -> None:
    fixed = ("--max-num-seqs", "16", *SPACE[2:], "--no-store")
    ran = cli("tune", small, "--goal", "max-rate", "--slo", "ttft:300ms", *fixed, "--attain", "0.9")
    assert ran.code == 0
    assert re.search(r"answer\s+--speedup [\d.]+: [\d.,]+ requests/s", ran.out)
    assert "holds" in ran.out
    assert "misses" in ran.out
    assert "note: time: roofline" in ran.err


def test_a_search_for_a_rate_at_which_every_replay_stalls_ends_as_a_stall(
    cli: Cli, small: Path
) -> None:
    tight = ("--num-gpu-blocks", "13", "--max-model-len", "1024", "--no-store")
    ran = cli("tune", small, "--goal", "max-rate", "--slo", "ttft:1s", *tight)
    assert ran.code == 3
    assert "stalled: no request can be scheduled any more" in ran.err
    assert "no rate holds it" not in ran.out


def test_no_rate_is_said_to_be_too_fast_where_the_slowest_did_not_end() -> None:
    missed = TriedRate(2.0, holds=False, share=0.5, summary=None)
    stalled = TriedRate(1.0, holds=False, share=None, summary=None, reason="stalled: it. More")
    view = rate_view("t", None, [missed, stalled], {"ttft": 1}, 0.9)
    ((_, answer),) = view.sheets[0].rows
    assert answer.text.endswith("the slowest, --speedup 1: stalled: it")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (SPACE, "--goal goodput is about an SLO"),
        ((*SLO, "--max-num-seqs", "64"), "tune needs a flag to search"),
        ((*SLO, "--max-num-seqs", "64:16"), "does not go up"),
        ((*SLO, "--goal", "max-rate", "--max-num-seqs", "1:9"), "takes flags as they are"),
        ((*SLO, *SPACE, "--out", "a", "--no-store"), "exclude each other"),
        ((*SLO, *SPACE, "--replays", "0"), "--replays is 0: it must be from 1 to"),
        ((*SLO, *SPACE, "-j", "0"), "--jobs is 0: it must be from 1 to"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    cli: Cli, small: Path, words: tuple[str, ...], message: str
) -> None:
    ran = cli("tune", small, *words)
    assert ran.code == 2
    assert message in ran.err


def test_without_optuna_the_extra_is_named(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    ran = cli("tune", small, *SLO, *SPACE)
    assert ran.code == 2
    assert "pip install '.[tune]'" in ran.err


def test_a_flag_takes_a_range_a_list_a_stepped_range_or_a_value() -> None:
    assert parse_space("max_num_seqs", "16:1K") == Range(16, 1024)
    assert parse_space("watermark", "0:0.1") == Range(0.0, 0.1, whole=False)
    assert parse_space("max_num_seqs", "16:64:x2") == Choices((16, 32, 64))
    assert parse_space("enable_chunked_prefill", "on,off") == Choices((True, False))
    assert parse_space("max_num_seqs", "7") == [7]
    with pytest.raises(UsageError, match="LOW:HIGH"):
        parse_space("max_num_seqs", "9:3")


@given(
    flags=st.fixed_dictionaries(
        {},
        optional={
            "max_num_seqs": st.integers(1, 999),
            "watermark": st.sampled_from([0.01, 0.25]),
            "enable_chunked_prefill": st.booleans(),
            "scheduler_reserve_full_isl": st.booleans(),
            "policy": st.sampled_from(["fcfs", "priority"]),
            "num_gpu_blocks": st.integers(100, 9999),
            "max_loras": st.integers(1, 8),
        },
    ),
    drafts=st.integers(0, 5),
)
def test_the_line_is_read_back_as_the_flags_it_was_made_of(
    flags: dict[str, object], drafts: int
) -> None:
    if drafts:
        flags = {**flags, "num_speculative_tokens": drafts, "spec_method": "eagle"}
    line = serve_line(flags)
    assert shlex.split(line)[:3] == ["vllm", "serve", "MODEL"]
    used = parse_serve_args(line).used
    assert {name: parse_value(name, text) for name, text in used.items()} == flags
    assert used.keys() <= FLAGS.keys()


def test_what_was_set_before_is_told_where_the_ranges_leave_it_out(cli: Cli, small: Path) -> None:
    asked = ("--max-num-seqs", "1:2", "--replays", "2", "--no-store", "-j", "1")
    ran = cli("tune", small, "--goal", "throughput", *asked, "--json")
    assert json.loads(ran.out)["before"]["flags"]["max-num-seqs"] > 2
    assert "nothing that was tried is better" in ran.err


def test_a_search_gets_a_page_with_every_point_that_was_run(cli: Cli, small: Path) -> None:
    space = (*SPACE, "--enable-chunked-prefill", "on,off")
    cli("tune", small, *SLO, *space, "--replays", "9", "--out", "t", "-j", "1")
    ran = cli("report", "t")
    assert (ran.code, ran.out) == (0, "report.html\n")
    page = Path("report.html").read_text()
    assert "Search of small.parquet" in page
    search = open_sweep(Path("t"))
    assert set(search.axes) == {"max_num_seqs", "enable_chunked_prefill"}
    assert sorted(search.paths) == sorted(Path("t/points").iterdir())
    seats = search.axes["max_num_seqs"]
    assert seats == sorted({point.flags["max_num_seqs"] for point in search.points})


def test_a_search_for_the_highest_rate_gets_a_page_over_the_speed_up(cli: Cli, small: Path) -> None:
    words = ("--goal", "max-rate", "--slo", "ttft:300ms", "--max-num-seqs", "16", *SPACE[2:])
    assert cli("tune", small, *words, "--attain", "0.9", "--out", "t").code == 0
    assert cli("report", "t").code == 0
    search = open_sweep(Path("t"))
    assert list(search.axes) == ["speedup"]
    assert len(search.points) == len(list(Path("t/points").iterdir()))
