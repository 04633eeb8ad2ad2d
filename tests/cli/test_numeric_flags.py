"""Each number that any command takes has a range, and an error about it says which."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import Cli
from commands import Flag, commands, flags_with_values

from schedbench.bounds import SHARE, Bounds
from schedbench.cli.values import FLAGS, parse_count, parse_number
from schedbench.cli.values import kind_of as kind_of_flag
from schedbench.errors import UsageError
from schedbench.runner.clock import parse_cost
from schedbench.sched.config import SchedulerConfig, option_of
from schedbench.workloads.transform import parse_speedup

WordsOf = Callable[[Flag, str], list[str]]

NUMBERS = re.compile(r"(N|SHARE|F|TIME|EXPONENT|KIND:TIME|ttft:TIME)(,\.\.\.|\|.*)?")
OUTSIDE = {
    "count": ("-1", "9223372036854775808", "1" + "0" * 30, "9" * 5000, "nan", "inf", "1e308"),
    "number": ("-1", "1e308", "nan", "inf", "-inf", "9" * 5000),
    "time": ("-1", "-1s", "nan", "1e308s", "9" * 30 + "h", "9" * 5000 + "s", "1e9"),
}
SAYS_A_RANGE = re.compile(r"(from|above) \S+ to (below )?\S+")

BEFORE = {
    ("replay",): ["TRACE", "--no-store"],
    ("sweep",): ["TRACE", "--no-store", "-j", "1", "--max-num-seqs", "2,4"],
    ("tune",): ["TRACE", "--no-store", "-j", "1", "--slo", "ttft:1s", "--max-num-seqs", "2:4"],
    ("upgrade",): ["TRACE", "-j", "1"],
    ("compare",): ["RUN", "RUN"],
    ("report",): ["RUN"],
    ("explain",): ["RUN"],
    ("gate",): ["TRACE", "--baseline", "BASELINE", "--update"],
    ("config",): [],
    ("trace", "import"): ["TRACE", "-o", "OUT"],
    ("trace", "describe"): ["TRACE"],
    ("trace", "check"): ["TRACE"],
    ("trace", "slice"): ["TRACE", "-o", "OUT"],
    ("trace", "export"): ["TRACE", "-o", "OUT"],
    ("trace", "synth"): ["-o", "OUT"],
    ("verify",): ["TRACE"],
    ("profile",): [],
    ("check-gpu",): [],
    ("doctor",): [],
}
"""What a command needs beside the flag that is tried."""

INSTEAD = {
    ("tune", "--attain"): ["TRACE", "--slo", "ttft:1s", "--goal", "max-rate", "--no-store"],
    ("trace slice", "--seed"): ["TRACE", "--thin", "0.5", "-o", "OUT"],
    ("verify", "--fuzz"): [],
}


def kind_of(flag: Flag) -> str:
    found = NUMBERS.fullmatch(flag.metavar.removesuffix(",..."))
    if found is None:
        return ""
    if "TIME" in found[1]:
        return "time"
    return "count" if found[1] == "N" else "number"


NUMERIC = [flag for flag in flags_with_values() if kind_of(flag)]


@pytest.fixture
def words_of(small: Path, cli: Cli, tmp_path: Path) -> WordsOf:
    def words(flag: Flag, text: str) -> list[str]:
        places = {"TRACE": small, "OUT": tmp_path / "out.parquet", "RUN": tmp_path / "run"}
        places |= {"BASELINE": tmp_path / "baseline.json"}
        if "RUN" in BEFORE[flag.command] and not places["RUN"].exists():
            done = cli("replay", small, "--cost", "pass:1ms", "--out", places["RUN"])
            assert done.code == 0
        key = (" ".join(flag.command), flag.option)
        before = [str(places.get(word, word)) for word in INSTEAD.get(key, BEFORE[flag.command])]
        for at in [at for at, word in enumerate(before) if word in flag.spellings]:
            del before[at : at + 2]
        typed = {"--cost": f"pass:{text}", "--slo": f"ttft:{text}"}.get(flag.option, text)
        return [*flag.command, *before, f"{flag.option}={typed}"]

    return words


def test_every_command_is_tried() -> None:
    assert set(BEFORE) == set(commands())


@pytest.mark.parametrize(("at", "flag"), enumerate(NUMERIC), ids=str)
def test_a_number_outside_its_range_is_refused_with_the_flag_and_the_range(
    cli: Cli, words_of: WordsOf, at: int, flag: Flag
) -> None:
    """Every flag meets one of the texts here, by turns; the fuzz of commands draws more."""
    texts = OUTSIDE[kind_of(flag)]
    text = texts[at % len(texts)]
    ran = cli(*words_of(flag, text))
    assert ran.code == 2, (text[:50], ran.err[-2000:])
    assert any(each in ran.err for each in flag.spellings), (text[:50], ran.err)
    said = " ".join(ran.err.split())
    assert SAYS_A_RANGE.search(said) or "does nothing in verify TRACE" in said, (text[:50], said)
    assert len(ran.err) < 1000, ran.err


@pytest.mark.parametrize("text", OUTSIDE["count"])
def test_no_text_passes_for_a_count(text: str) -> None:
    with pytest.raises(UsageError, match=r"--limit.* from 1 to 9"):
        parse_count(text, "--limit", Bounds(1, 9))


@pytest.mark.parametrize("text", OUTSIDE["number"])
def test_no_text_passes_for_a_share(text: str) -> None:
    with pytest.raises(UsageError, match=r"--attain.* from 0 to 1"):
        parse_number(text, "--attain", SHARE)
    with pytest.raises(UsageError, match=r"--speedup.* from 0\.000001 to 1000000"):
        parse_speedup(text)


@pytest.mark.parametrize("text", OUTSIDE["time"])
def test_no_text_passes_for_a_time(text: str) -> None:
    with pytest.raises(UsageError, match=r"--cost.* from 1ns to 1h"):
        parse_cost(f"pass:{text}")


@pytest.mark.parametrize("name", [each for each in FLAGS if kind_of_flag(each) in (int, float)])
def test_every_number_among_the_scheduler_flags_has_a_range_in_python_too(name: str) -> None:
    release = "0.26.0" if FLAGS[name].metadata["gone_with"] else "0.33.0"
    for value in (-1, 2**63, float("nan"), float("inf"), 10**30):
        with pytest.raises(UsageError, match=f"{option_of(name)}.* from .* to "):
            SchedulerConfig(vllm_version=release, **{name: value})
