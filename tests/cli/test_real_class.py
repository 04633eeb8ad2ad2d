"""`--scheduler vllm` where vLLM is absent, and what becomes of runs that do not tell verdicts."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING

import pytest

from schedbench.results.pass_log import PASS_COLUMNS, request_columns
from schedbench.results.stored_run import StoredRun
from schedbench.results.untold import UNTOLD, UntoldLog
from schedbench.runner import run, vllm_terms
from schedbench.runner.record import Recorder
from schedbench.runner.waits import WAIT_LABELS
from schedbench.workloads.store import write_trace
from schedbench.workloads.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

    from cli_runs import Cli

    from schedbench.results.memory_log import MemoryRun
    from schedbench.runner.run import ReplayOptions
    from schedbench.sched.scheduler import Scheduler

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024", "--no-steady")
POLICY = """
import schedbench

class LastFirst(schedbench.Policy):
    def waiting_key(self, request, state):
        return -int(request.request_id)
"""


def _none_installed() -> str:
    raise PackageNotFoundError("vllm")


def _tells_no_verdicts(scheduler: Scheduler, sink: MemoryRun, options: ReplayOptions) -> Recorder:
    passes = UntoldLog(sink.passes, PASS_COLUMNS)
    requests = UntoldLog(sink.requests, request_columns(WAIT_LABELS))
    return Recorder(scheduler, passes, requests, options.warmup_ns)


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store runs as those of vLLM's own class are."""
    monkeypatch.setattr(run, "_recorder", _tells_no_verdicts)


def test_without_vllm_its_class_is_refused_with_the_way_to_get_it(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_terms, "vllm_version", _none_installed)
    ran = cli("replay", small, "--scheduler", "vllm", "--vllm-version", "0.33.0")
    assert ran.code == 2
    assert "`make vllm-env VERSION=0.33.0`" in ran.err


@pytest.mark.parametrize(
    ("found", "says"),
    [("0.34.0", "drives the classes of 0.26.0, 0.27.0"), ("0.33.0", "--vllm-version 0.33.0")],
)
def test_another_release_than_the_one_followed_is_refused(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch, found: str, says: str
) -> None:
    monkeypatch.setattr(vllm_terms, "vllm_version", lambda: found)
    ran = cli("replay", small, "--scheduler", "vllm", "--no-store")
    assert ran.code == 2
    assert f"the installed vLLM is {found}" in ran.err
    assert says in ran.err


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [
        ("replay", ["--policy-class", "a:B"], "takes no policy"),
        ("replay", ["--outputs", "out.jsonl"], "writes no --outputs"),
        ("replay", ["--behaviour", "threshold-lone=on"], "asks for a mixture"),
        ("sweep", ["--max-num-seqs", "4,8"], "only `schedbench replay` drives"),
        ("gate", ["--baseline", "b.json", "--update"], "only `schedbench replay` drives"),
    ],
)
def test_what_the_class_has_no_part_in_is_refused(
    cli: Cli, small: Path, command: str, words: list[str], says: str
) -> None:
    ran = cli(command, small, "--scheduler", "vllm", *words)
    assert ran.code == 2
    assert says in ran.err


@pytest.mark.usefixtures("untold")
def test_what_is_not_told_is_null_and_in_no_figure(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT, "--out", "untold")
    assert ran.code == 0
    assert "why else it ended is not told" in ran.out
    assert "no limit was ever binding" not in ran.out
    stored = StoredRun.open("untold")
    passes, summary = stored.passes(), stored.summary
    assert [n for n in passes.column_names if passes.column(n).null_count] == list(UNTOLD)
    assert {passes.column(name).null_count for name in UNTOLD} == {passes.num_rows}
    assert summary["preempted"] > 0
    assert (summary["admissions_cancelled_fit"], summary["binding_limit"]) == (None, {})
    assert summary["waits"] == {}


def test_equal_decisions_are_seen_although_one_run_does_not_tell_its_verdicts(
    cli: Cli, small: Path, request: pytest.FixtureRequest
) -> None:
    cli("replay", small, *TIGHT, "--out", "told")
    cli("replay", small, *TIGHT, "--max-num-seqs", "9", "--out", "other")
    request.getfixturevalue("untold")
    cli("replay", small, *TIGHT, "--out", "untold")
    same = cli("compare", "told", "untold").out
    assert "equal, in decisions and in time" in same
    assert "left out: admissions_cancelled_fit, budget_stranded, running_stop" in same
    assert "from pass" in cli("compare", "other", "untold").out


def test_equal_counts_of_other_requests_are_no_equal_decisions(
    cli: Cli, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    twins = {"arrival_ns": [0] * 6, "prompt_tokens": [20] * 6, "output_tokens": [5] * 6}
    write_trace(Trace.from_columns(twins), tmp_path / "twins.parquet")
    (tmp_path / "latest.py").write_text(POLICY)
    flags = ("twins.parquet", "--max-num-seqs", "2", *TIGHT)
    cli("replay", *flags, "--policy-class", "latest:LastFirst", "--out", "last-first")
    request.getfixturevalue("untold")
    cli("replay", *flags, "--out", "untold")
    found = cli("compare", "last-first", "untold").out
    assert "from pass 0" in found, found
    assert "equal counts, of other requests or in another order" in found
