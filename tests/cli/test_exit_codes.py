import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_runs import Cli, Program

import schedbench.cli.main as program_module


def test_0_is_for_a_command_that_did_what_it_says(program: Program) -> None:
    ran = program("--version")
    assert (ran.code, ran.out, ran.err) == (0, "schedbench 0.1.0\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["repla"], "no such command 'repla'"),
        (
            ["replay", "--max-num-seq", "3"],
            "did you mean --max-num-seqs or --max-num-active-seqs",
        ),
        (["replay", "--max-num-seqs", "many"], "'many' is no whole number; write one from 1 to"),
        (["replay", "--max-num-seqs", "-1"], "--max-num-seqs is -1: it must be from 1 to"),
        (
            ["replay", "--max-num-seqs", "4,8"],
            "sweep TRACE --max-num-seqs 4,8` replays",
        ),
        (["replay", "--vllm-version", "0.33"], "did you mean 0.33.0?"),
        (["replay", "--vllm-version", "0.26.0,0.33.0"], "sweep TRACE --vllm-version 0.26.0,0.33.0"),
        (["replay", "--scheduler", "vLLM"], "did you mean vllm?"),
        (
            ["replay", "--outputs", "a", "--request-events", "./a"],
            "both name a: they are two files",
        ),
        (["replay", "--watermark", "much"], "--watermark: 'much' is no number"),
        (["replay", "--watermark", "2"], "--watermark is 2: it must be from 0 to below 1"),
        (["replay", "--scheduling-policy", "lifo"], "'lifo' is not one of fcfs, priority"),
        (["replay", "--limit"], "option '--limit' requires an argument"),
        (["replay", "--arrivals", "never"], "'never' is not one of"),
        (["replay", "--warmup", "5"], "--warmup: '5' is no duration"),
        (["replay", "--slo", "ttft"], "--slo: 'ttft' is no bound"),
        (["replay", "--slo", "ttft:1s,ttft:2s"], "--slo: ttft stands there twice"),
        (["replay", "--cost", "free"], "--cost: 'free' is not understood"),
        (["replay", "--speedup", "0"], "--speedup is 0: it must be from 0.000001"),
        (["replay", "nothing.csv"], "nothing.csv: there is no such file"),
        (["replay", "--limit", "9999"], "limit 9999: the window holds 2000 requests"),
        (["replay", "--from", "100h"], "no request arrives from 100h on"),
        (["replay", "--from", "90m", "--to", "91m"], "arrives from 90m to before 91m; the"),
        (["replay", "--from", "30m", "--to", "10m"], "--from 30m is not before --to 10m"),
        (["replay", "--spread-seed", "3"], "--spread-seed 3 would have no effect without --spread"),
        (["sweep", "--max-num-seqs", "4,8", "-j", "0"], "--jobs is 0: it must be from 1 to 1024"),
        (["replay", "--no-store", "--out", "x"], "--no-store keeps nothing and --out says"),
        (["replay", "--events", "none.jsonl"], "--events none.jsonl: No such file"),
        (["replay", "--served-model-name", "m"], "--served-model-name has no effect on"),
        (["replay", "-asc", "2"], "-asc has no effect on scheduling"),
        (["replay", "--scheduler-cls", "a.B"], "--scheduler-cls: another class decides otherwise"),
        (["replay", "--serve-args", "vllm serve m --nonsense 3"], "has no flag --nonsense in any"),
        (["sweep"], "a sweep needs a flag with several values, such as --max-num-seqs 64,128"),
        (["sweep", "--max-num-seqs", "64"], "each here has one: --max-num-seqs 64. Give one of"),
        (["sweep", "-j", "1", "--max-num-seqs", "64"], "or replay that with `schedbench replay"),
        (["sweep", "--max-num-seqs", "64:128"], "'64:128' has no step"),
        (["sweep", "--resume", "nope"], "--resume nope: that folder is not there"),
        (["tune", "--resume", "nope"], "--resume nope: that folder is not there"),
        (["tune", "--goal", "ttft", "--resume", "."], "that folder has no sweep.json, so it is"),
        (["compare"], "compare needs two runs or more"),
        (["compare", "a", "b"], "a is not a run: there is no such folder"),
        (["trace", "import", "x.csv"], "missing option '-o' / '--out'"),
        (["verify", "log.gz"], "log.gz: there is no such file"),
        (["verify", "--golden", "log.gz"], "log.gz: there is no such file"),
    ],
)
def test_2_is_for_bad_usage_and_bad_input_and_says_what_to_do(
    cli: Cli, words: list[str], said: str
) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    last = ran.err.splitlines()[-1]
    assert last.startswith("error: ")


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("--num-gpu-blocks", "0"),
        ("--num-gpu-blocks-override", "0"),
        ("--num_gpu_blocks", "many"),
        ("--spec-tokens", "-1"),
        ("--num-speculative-tokens", "x"),
    ],
)
def test_an_option_with_two_spellings_is_called_as_it_was_typed(
    cli: Cli, typed: str, value: str
) -> None:
    ran = cli("replay", typed, value)
    assert ran.code == 2
    (line,) = [each for each in ran.err.splitlines() if each.startswith("error: ")]
    assert re.findall(r"--num-[\w-]+|--spec-[\w-]+", line) == [typed.replace("_", "-")]


def test_4_is_for_what_could_not_be_written(cli: Cli, small: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").write_text("mine")
    ran = cli("replay", small, "--out", taken)
    assert ran.code == 4
    assert "holds files already" in ran.err
    assert (taken / "file").read_text() == "mine"


def test_130_is_for_an_interrupt(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "schedbench", "replay", "--no-store"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "shipped sample" in process.stderr.readline()  # it has begun
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize(
    ("number", "code", "how"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_replay_that_is_stopped_says_what_is_kept_and_what_reads_it(
    tmp_path: Path, cli: Cli, number: int, code: int, how: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "schedbench", "replay", "--out", "kept", "--no-steady"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "kept" / "manifest.json").exists():
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=180)
    kept, last = err.splitlines()[-2:]
    assert (process.returncode, last) == (code, f"error: {how}")
    assert "what was recorded is kept in kept: `schedbench explain kept` reads it" in kept
    refused = cli("compare", "kept", "kept")
    assert "remove that folder or give another --out" in refused.err
    assert cli("explain", "kept").code == 0


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        ran = subprocess.run(
            [sys.executable, "-m", "schedbench", "config"],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_fault_of_the_program_is_told_in_one_line_and_with_debug_in_full(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_words: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(program_module, "_invoke", fail)
    plain, full = cli("replay"), cli("replay", debug=True)
    assert (plain.code, full.code) == (70, 70)
    assert plain.err == (
        "error: ZeroDivisionError: by zero. This is a fault of schedbench: "
        "run it again with --debug and report that\n"
    )
    assert "Traceback" in full.err


def test_debug_may_stand_behind_the_command_or_in_the_environment(program: Program) -> None:
    for ran in (
        program("replay", "none.csv", "--debug"),
        program("replay", "none.csv", SCHEDBENCH_DEBUG="1"),
    ):
        assert ran.code == 2
        assert "Traceback" in ran.err
