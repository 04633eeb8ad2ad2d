import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import Cli
from hypothesis import given
from hypothesis import strategies as st

from schedbench.cli.flag_lists import spelled_out
from schedbench.cli.sweep_end import worth_comparing
from schedbench.results.pass_log import SCHEMA_VERSION
from schedbench.results.report.sweep_folder import open_sweep
from schedbench.results.stored_run import StoredRun
from schedbench.runner.sweep import Outcome, Plan, run_sweep
from schedbench.workloads.trace import Trace

OWN_POLICY = """
import schedbench

class P(schedbench.Policy):
    def may_admit(self, request, state):
        return True
"""
FIXED = ("--max-model-len", "1024", "--jobs", "1")


def points(out: str) -> list[tuple[dict[str, object], int | None]]:
    return [
        (each["flags"], each["summary"] and each["summary"]["passes"]) for each in json.loads(out)
    ]


def test_a_grid_gives_a_row_for_each_combination_the_last_flag_fastest(
    cli: Cli, small: Path
) -> None:
    ran = cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--num-gpu-blocks", "80:320:x2",
              "--no-store", "--json")  # fmt: skip
    assert ran.code == 0
    found = [tuple(flags.values()) for flags, _ in points(ran.out)]
    assert found == [(4, 80), (4, 160), (4, 320), (8, 80), (8, 160), (8, 320)]


def test_the_table_marks_the_best_and_names_the_binding_limit(cli: Cli, small: Path) -> None:
    ran = cli("sweep", small, *FIXED, "--max-num-seqs", "2,64", "--no-store")
    rows = [line for line in ran.out.splitlines() if re.match(r"\s+(2|64) ", line)]
    assert len(rows) == 2
    assert "seats" in rows[0]
    assert "* " in rows[1]


def test_a_point_is_what_replay_makes_of_the_same_flags(cli: Cli, small: Path) -> None:
    swept = points(
        cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--speedup", "1,2", "--no-store",
            "--json").out
    )  # fmt: skip
    for flags, passes in swept:
        alone = cli(
            "replay", small, "--max-model-len", "1024", "--max-num-seqs", flags["max-num-seqs"],
            "--speedup", flags["speedup"], "--no-store", "--json",
        )  # fmt: skip
        assert json.loads(alone.out)["passes"] == passes


def test_several_processes_find_what_one_does(cli: Cli, small: Path) -> None:
    words = ("sweep", small, "--max-model-len", "1024", "--max-num-seqs", "4,8,16", "--json")
    alone = cli(*words, "--jobs", "1", "--no-store")
    together = cli(*words, "--jobs", "2", "--out", "kept")
    assert points(together.out) == points(alone.out)
    assert len(list(Path("kept/points").iterdir())) == 3


def test_switches_and_costs_can_vary_and_plain_switches_are_fixed(cli: Cli, small: Path) -> None:
    ran = cli("sweep", small, *FIXED, "--enable-prefix-caching", "on,off", "--no-async-scheduling",
              "--cost", "pass:1ms,linear:8ms,0.03ms", "--out", "kept", "--json")  # fmt: skip
    assert [tuple(flags.values()) for flags, _ in points(ran.out)] == [
        (True, "pass:1ms"),
        (True, "linear:8ms,0.03ms"),
        (False, "pass:1ms"),
        (False, "linear:8ms,0.03ms"),
    ]
    runs = [StoredRun.open(path) for path in Path("kept/points").iterdir()]
    assert {run.manifest["scheduler"]["async_scheduling"] for run in runs} == {False}


def test_a_lone_switch_is_on_and_its_no_form_off() -> None:
    given = ["t.csv", "--no-async_scheduling", "--enable-prefix-caching", "--max-num-seqs", "4,8"]
    assert spelled_out(given) == [
        "t.csv", "--async-scheduling", "off", "--enable-prefix-caching", "on",
        "--max-num-seqs", "4,8",
    ]  # fmt: skip
    assert spelled_out(["--enable-prefix-caching", "on,off"]) == [
        "--enable-prefix-caching",
        "on,off",
    ]


def test_a_point_that_is_impossible_or_stalls_is_a_row_with_its_reason(
    cli: Cli, small: Path
) -> None:
    ran = cli("sweep", small, *FIXED, "--num-gpu-blocks", "6,13,160", "--no-async-scheduling",
              "--no-scheduler-reserve-full-isl", "--no-enable-prefix-caching", "--out", "kept",
              "--json")  # fmt: skip
    assert ran.code == 0
    found = {each["flags"]["num-gpu-blocks"]: each["failure"] for each in json.loads(ran.out)}
    assert "longer than the whole KV pool" in found[6]
    assert found[13].startswith("stalled: no request can be scheduled any more")
    assert found[160] is None


def test_why_a_point_has_no_result_is_kept_and_survives_a_resume(cli: Cli, small: Path) -> None:
    words = ("sweep", small, *FIXED, "--num-gpu-blocks", "6,160", "--max-num-batched-tokens",
             "256,2048", "--enable-chunked-prefill", "off")  # fmt: skip
    first = cli(*words, "--out", "kept")
    log = Path("kept/points.jsonl")
    kept = log.read_bytes()
    told = [each for each in map(json.loads, kept.splitlines()) if "status" in each]
    assert {tuple(each["point"].values()): each["status"] for each in told} == {
        (256, 6): "refused", (2048, 6): "refused", (256, 160): "refused",
    }  # fmt: skip
    log.write_bytes(kept + b'{"point": {"num_gpu')  # and the process was killed
    again = cli(*words, "--resume", "kept")
    assert (again.out, again.err) == (first.out, first.err.replace("--out", "--resume"))
    stored = {tuple(each.flags.values()): each.failure for each in open_sweep(Path("kept")).points}
    assert stored[2048, 160] == ""
    assert "longer than the whole KV pool" in stored[2048, 6]
    assert "vLLM refuses it" in stored[256, 160]


def test_a_stored_sweep_knows_its_points_whatever_varies(cli: Cli, small: Path) -> None:
    Path("own_of_sweep.py").write_text(OWN_POLICY)
    ran = cli("sweep", small, *FIXED, "--policy-class", "default,own_of_sweep:P", "--gpu",
              "H100-SXM,A100-80GB-SXM", "--num-gpu-blocks", "160", "--out", "kept")  # fmt: skip
    assert ran.code == 0, ran.err
    points = open_sweep(Path("kept")).points
    assert len({tuple(each.flags.values()) for each in points}) == 4
    assert all(each.summary is not None for each in points)


def test_a_sweep_says_of_each_source_of_time_what_it_is_and_calls_an_estimate_one(
    cli: Cli, small: Path
) -> None:
    words = ("sweep", small, "--num-gpu-blocks", "160", "--max-model-len", "1024", "--no-store")
    modelled = cli(*words, "--gpu", "H100-SXM,L4", "--max-num-seqs", "4,8").err
    for gpu in ("H100-SXM", "L4"):
        said = f"note: time: roofline for llama-3.1-8b on {gpu}: an estimate, fitted to nothing\n"
        assert modelled.count(said) == 1
    assert (
        "note: time: logical time" in cli(*words, "--cost", "pass:1ms", "--max-num-seqs", "4,8").err
    )


def test_no_limit_that_binds_is_said_of_a_sweep_and_of_a_comparison(cli: Cli, small: Path) -> None:
    roomy = ("--num-gpu-blocks", "4000", *FIXED)
    said = "no limit was ever binding in any configuration, so this comparison means nothing"
    swept = cli("sweep", small, *roomy, "--max-num-seqs", "64,128", "--out", "kept")
    assert said in swept.err
    assert said in cli("compare", *Path("kept/points").iterdir()).err
    busy = cli("sweep", small, *roomy, "--max-num-seqs", "1,64", "--no-store")
    assert said not in busy.err


def test_a_flag_that_varies_brings_the_columns_that_it_is_about(cli: Cli, small: Path) -> None:
    def headings(*words: str) -> str:
        return cli("sweep", small, *FIXED, *words, "--no-store", "--format", "md").out

    chunks = headings("--max-num-batched-tokens", "64,2048")
    seats = headings("--max-num-seqs", "4,8")
    for heading in ("mixed passes %", "decode-only p99", "budget used %"):
        assert heading in chunks
        assert heading not in seats
    drafts = headings("--spec-method", "draft_model", "--spec-tokens", "0,3")
    assert "drafts/decode" in drafts
    assert "worst hit" in headings("--scheduling-policy", "fcfs,priority")


def test_3_is_the_exit_code_when_no_point_finished(cli: Cli, small: Path) -> None:
    ran = cli("sweep", small, *FIXED, "--num-gpu-blocks", "5,6", "--no-store")
    assert ran.code == 3
    assert ran.err.splitlines()[-1].startswith("error: no point of the sweep finished")


def test_points_that_lie_complete_are_reused_and_the_table_is_the_same(
    cli: Cli, small: Path
) -> None:
    words = ("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--num-gpu-blocks", "13,160",
             "--no-scheduler-reserve-full-isl", "--no-enable-prefix-caching")  # fmt: skip
    first = cli(*words, "--out", "kept")
    (whole, cut, *_) = sorted(Path("kept/points").glob("*160*"))
    (cut / "manifest.json").write_text(f'{{"schema_version": {SCHEMA_VERSION}, "complete": false}}')
    before = (whole / "summary.json").stat().st_mtime_ns
    again = cli(*words, "--resume", "kept")
    assert again.out == first.out
    assert (whole / "summary.json").stat().st_mtime_ns == before
    assert StoredRun.open(cut).is_complete


def test_a_sweep_is_not_resumed_with_another_trace(cli: Cli, small: Path) -> None:
    cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--out", "kept")
    ran = cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--resume", "kept", "--limit", "9")
    assert ran.code == 2
    assert "holds a sweep of another trace" in ran.err
    assert (
        "--resume .: that folder has no sweep.json"
        in cli("sweep", small, "--max-num-seqs", "4,8", "--resume", ".").err
    )


def test_a_sweep_in_the_place_of_a_run_or_a_trace_is_named_with_what_to_do(
    cli: Cli, small: Path
) -> None:
    cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--out", "kept")
    (first, *_) = sorted(Path("kept/points").iterdir())
    for words in (
        ("explain", "kept"),
        ("compare", "kept", first),
        ("compare", "kept", "--by", "client"),
    ):
        ran = cli(*words)
        assert ran.code == 2
        assert f"Name one, such as {first} (2 in all)" in ran.err
    assert cli("explain", first, "--no-what-if").code == 0
    replayed = cli("replay", first)
    assert replayed.code == 2
    assert f"{first}: is a run, no trace" in replayed.err
    assert f"`schedbench explain {first}`" in replayed.err
    assert f"or name its trace, {small}," in replayed.err
    assert "kept: is a sweep or a search, no trace" in cli("replay", "kept").err


def test_a_folder_is_never_written_over(cli: Cli, small: Path) -> None:
    cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--out", "kept")
    ran = cli("sweep", small, *FIXED, "--max-num-seqs", "4,8", "--out", "kept")
    assert ran.code == 4
    assert "--resume kept" in ran.err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_sweep_shows_and_keeps_what_it_has(tmp_path: Path, jobs: str) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "schedbench", "sweep", "--max-num-seqs", "1,99999"),
            *("--max-num-batched-tokens", "8192"),
            *("--out", "kept", "--jobs", jobs),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("kept/points/*/passes")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "schedbench sweep --resume kept" in err
    assert err.splitlines()[-1] == "error: interrupted"
    if jobs == "2":
        assert "failed" in out  # the point above the token budget was refused at once, and is shown


def test_a_sweep_is_not_resumed_with_other_settings_and_takes_more_values(
    cli: Cli, small: Path
) -> None:
    words = ("sweep", small, *FIXED, "--num-gpu-blocks", "160")
    cli(*words, "--max-num-seqs", "4,8", "--out", "kept")
    other = cli(*words, "--max-num-seqs", "4,8", "--speedup", "2", "--resume", "kept")
    assert other.code == 2
    assert "a sweep of other settings: --speedup is 1 there and 2 here" in other.err
    flag = cli(*words, "--max-num-seqs", "4,8", "--watermark", "0.1", "--resume", "kept")
    assert "--watermark is not given there and 0.1 here" in flag.err
    grid = cli(*words, "--max-num-batched-tokens", "64,128", "--resume", "kept")
    assert "--max-num-seqs varied there, and --max-num-batched-tokens and --max-num" in grid.err
    assert not re.search(r"[\[\]{}]", grid.err)
    assert cli(*words, "--max-num-seqs", "4,8,16", "--resume", "kept").code == 0
    assert len(list(Path("kept/points").iterdir())) == 3


def test_a_sweep_goes_on_with_its_folder_alone_and_what_is_typed_counts_first(
    cli: Cli, small: Path
) -> None:
    words = ("--num-gpu-blocks", "160", "--no-enable-prefix-caching", "--max-num-seqs", "4,8")
    first = cli("sweep", small, *FIXED, *words, "--out", "kept")
    bare = cli("sweep", "--resume", "kept")
    assert (bare.code, bare.out) == (0, first.out)
    assert cli("sweep", "--resume", "kept", "--max-num-seqs", "4,8,16").code == 0
    assert len(list(Path("kept/points").iterdir())) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--max-num-seqs",),
            "'--max-num-seqs' requires an argument (see `schedbench sweep --help`)",
        ),
        (("--resume", "x", "--watermark"), "requires an argument (see `schedbench sweep --help`)"),
        (("--enable-prefix-caching", "yes,no"), "--enable-prefix-caching: 'yes' is neither on nor"),
    ],
)
def test_a_flag_without_a_value_that_it_takes_is_named_with_its_command(
    cli: Cli, words: tuple[str, ...], message: str
) -> None:
    ran = cli("sweep", *words)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())


def test_points_without_a_result_are_counted_at_the_end(cli: Cli, small: Path) -> None:
    ran = cli("sweep", small, *FIXED, "--num-gpu-blocks", "6,160", "--no-store")
    assert ran.code == 0
    assert "warning: 1 of 2 points have no result: 1 refused" in ran.err
    fine = cli("sweep", small, *FIXED, "--num-gpu-blocks", "120,160", "--no-store")
    assert "no result" not in fine.err


def test_a_flag_that_changes_nothing_is_named_and_nothing_to_compare(cli: Cli, small: Path) -> None:
    same = cli("sweep", small, *FIXED, "--max-num-seqs", "64,128", "--out", "kept")
    assert "--max-num-seqs made no difference" in same.out
    assert "best TTFT p99" not in same.err
    alike = cli("sweep", small, *FIXED, "--scheduling-policy", "fcfs,priority", "--no-store")
    assert "--scheduling-policy made no difference" in alike.out
    assert "made no difference" not in cli("sweep", small, *FIXED, "--max-num-seqs", "1,4").out


def test_no_flag_is_named_idle_by_a_sweep_that_was_interrupted(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_two(trace: Trace, plan: Plan, **_: object) -> Iterator[Outcome]:
        yield from itertools.islice(run_sweep(trace, plan, out=None), 2)
        raise KeyboardInterrupt

    words = ("sweep", small, *FIXED, "--max-num-seqs", "1,2", "--num-gpu-blocks", "2000,4000")
    whole = cli(*words, "--no-store")
    monkeypatch.setattr("schedbench.runner.sweep.run_sweep", first_two)
    cut = cli(*words, "--no-store")
    assert cut.code == 130
    assert "--num-gpu-blocks made no difference" in whole.out
    assert "made no difference" not in cut.out


@given(
    st.lists(
        st.tuples(st.sampled_from((10.0, 10.01, 30)), st.sampled_from((500.1, 500.11, 900))),
        max_size=4,
    )
)
def test_two_points_are_worth_comparing_where_each_is_shown_to_be_better_in_one(
    found: list[tuple[float, float]],
) -> None:
    outcomes = [
        Outcome(
            at,
            {},
            "complete",
            {"ttft_ns": {"p99": ms * 10**6}, "output_tokens_per_s": rate},
            path=Path(f"kept/points/max_num_seqs={at}"),
        )
        for at, (ms, rate) in enumerate(found)
    ]
    shown = [(f"{ms:.1f}", f"{rate:.1f}") for ms, rate in found]
    least = min((float(ms) for ms, _ in shown), default=0)
    most = max((float(rate) for _, rate in shown), default=0)
    is_settled = not found or any((float(a), float(b)) == (least, most) for a, b in shown)
    command = worth_comparing(outcomes)
    assert (command == "") == is_settled
    if command:
        one, other = (shown[int(path[-1])] for path in command.split()[-2:])
        assert (float(one[0]), float(other[1])) == (least, most)
        assert one[0] != other[0]
        assert one[1] != other[1]


def test_between_releases_it_is_said_what_no_store_leaves_out(cli: Cli, small: Path) -> None:
    words = ("sweep", small, *FIXED, "--vllm-version", "0.26.0,0.33.0", "--num-gpu-blocks", "160")
    assert "leave out --no-store" in cli(*words, "--no-store").err
    assert "leave out --no-store" not in cli(*words, "--no-store", "--no-cause").err
    assert "leave out --no-store" not in cli(*words, "--out", "kept").err
