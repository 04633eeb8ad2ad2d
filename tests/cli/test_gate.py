import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from cli_runs import Cli
from markdown_it import MarkdownIt

from schedbench.sched import running_loop

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")
MADE = ("--baseline", "b.json", "--update")


@pytest.fixture
def evicts_the_first(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Plant a change of one line: of the running list, take the first instead of the last.

    It is one of the plain loops, which `--no-steady` takes.
    """

    def plant() -> None:
        def pick_first(scheduler, this_pass, request):  # noqa: ANN001, ANN202, ARG001
            return scheduler.running[0]

        monkeypatch.setattr(running_loop, "pick_victim", pick_first)

    return plant


def test_a_run_passes_the_baseline_that_was_made_of_it(cli: Cli, small: Path) -> None:
    made = cli("gate", small, *TIGHT, *MADE)
    assert (made.code, made.out) == (0, "")
    assert "wrote b.json" in made.err
    ran = cli("gate", small, "--baseline", "b.json")
    assert ran.code == 0
    assert re.fullmatch(r"b: passed, \d+ checks · vLLM 0\.26\.0\n", ran.out)


def test_a_baseline_keeps_the_part_of_the_trace_that_it_is_of(cli: Cli, small: Path) -> None:
    cli("gate", small, *TIGHT, "--limit", "9", *MADE)
    ran = cli("gate", small, "--baseline", "b.json")
    assert ran.code == 0
    assert "--limit 9, as in the baseline" in ran.err
    assert cli("gate", small, *MADE).code == 0
    assert json.loads(Path("b.json").read_text())["counters"]["requests"] == 9


def test_a_baseline_that_is_written_over_is_held_against_the_new_one(cli: Cli, small: Path) -> None:
    cli("gate", small, *TIGHT, *MADE)
    assert "b.json said the same" in cli("gate", small, *MADE).err
    known = json.loads(Path("b.json").read_text())
    known["counters"]["preempted"] += 5
    Path("b.json").write_text(json.dumps(known))
    preempted = known["counters"]["preempted"]
    assert f"preempted: {preempted} -> {preempted - 5}" in cli("gate", small, *MADE).err
    other = cli("gate", small, "--max-num-seqs", "7", *MADE)
    assert "was another run's: the baseline is of other flags: --max-num-seqs is" in other.err


def test_a_baseline_keeps_flags_that_are_not_the_default_and_the_cost(
    cli: Cli, small: Path
) -> None:
    cli("gate", small, *TIGHT, "--speedup", "2", *MADE)
    assert json.loads(Path("b.json").read_text())["flags"] == {
        "max_model_len": 1024,
        "num_gpu_blocks": 80,
        "speedup": "2",
        "deployment": {"cost": "linear:8ms,0.03ms"},
    }


def test_other_flags_than_those_of_the_baseline_are_refused_by_name(cli: Cli, small: Path) -> None:
    cli("gate", small, *TIGHT, *MADE)
    ran = cli("gate", small, "--baseline", "b.json", "--max-num-seqs", "7")
    assert ran.code == 2
    assert "--max-num-seqs is 1024 in the baseline and 7 here" in ran.err
    timed = cli("gate", small, "--baseline", "b.json", "--cost", "pass:1ms", "--warmup", "1ms")
    assert "--cost is linear:8ms,0.03ms in the baseline and pass:1ms here" in timed.err
    assert "--warmup is 0ns in the baseline and 1000000ns here" in timed.err


def test_another_trace_is_refused(cli: Cli, small: Path) -> None:
    cli("gate", small, *TIGHT, "--limit", "30", *MADE)
    ran = cli("gate", small, "--baseline", "b.json", "--limit", "20")
    assert ran.code == 2
    assert re.search(r"the baseline is of \S+ --limit 30 \(30 requests", ran.err)
    assert re.search(r"and this is \S+ --limit 20 \(20 requests", ran.err)


@pytest.mark.parametrize("broken", ["", '{"baseline_version": 1, "tr', '{"baseline_version": 1}'])
def test_a_damaged_baseline_is_refused_and_update_writes_over_it(
    cli: Cli, small: Path, broken: str
) -> None:
    Path("b.json").write_text(broken)
    refused = cli("gate", small, "--baseline", "b.json")
    assert (refused.code, "Make it again with --update" in refused.err) == (2, True)
    made = cli("gate", small, *TIGHT, *MADE)
    assert (made.code, "it is written over" in made.err) == (0, True)
    assert cli("gate", small, "--baseline", "b.json").code == 0


@pytest.mark.parametrize("mine", ['{"name": "mine"}', "arrival,prompt,output\n", "{"])
def test_a_file_that_is_no_baseline_is_not_written_over(cli: Cli, small: Path, mine: str) -> None:
    Path("b.json").write_text(mine)
    for ran in (cli("gate", small, *MADE), cli("gate", small, "--baseline", "b.json")):
        assert "Give another --baseline" in ran.err
    assert Path("b.json").read_text() == mine


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_what_a_gate_reads_is_not_written_over(cli: Cli, small: Path, option: str) -> None:
    cli("gate", small, *TIGHT, *MADE)
    for path in (small, Path("b.json")):
        held = path.read_bytes()
        ran = cli("gate", small, "--baseline", "b.json", option, path)
        assert (ran.code, "reads that file; name another" in ran.err) == (2, True)
        assert path.read_bytes() == held


def test_a_refusal_is_an_error_in_every_file_that_ci_reads(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("gate", small, *TIGHT, *MADE)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    files = ("--junit", "gate.xml", "--markdown", "gate.md")
    ran = cli("gate", small, "--baseline", "b.json", "--max-num-seqs", "7", *files)
    assert ran.code == 2
    (suite,) = ET.parse("gate.xml").getroot()  # noqa: S314 (written just now)
    counts = [suite.get(name) for name in ("tests", "failures", "errors")]
    assert counts == ["1", "0", "1"]
    assert "--max-num-seqs is 1024" in suite.find("testcase/error").text
    for name in ("gate.md", "summary.md"):
        assert "b: refused" in Path(name).read_text()
        assert "--max-num-seqs is 1024" in Path(name).read_text()


def test_text_and_junit_count_alike_and_no_one_is_told_to_keep_what_failed(
    cli: Cli, small: Path, evicts_the_first: Callable[[], None]
) -> None:
    cli("gate", small, *TIGHT, *MADE)
    baseline = json.loads(Path("b.json").read_text())
    baseline["times"]["makespan_ns"]["value"] *= 2
    Path("b.json").write_text(json.dumps(baseline))
    better = cli("gate", small, "--baseline", "b.json")
    assert (better.code, "keep what got better" in better.out) == (0, True)
    evicts_the_first()
    ran = cli("gate", small, "--no-steady", "--baseline", "b.json", "--junit", "gate.xml")
    assert (ran.code, "keep what got better" in ran.out) == (1, False)
    (suite,) = ET.parse("gate.xml").getroot()  # noqa: S314 (written just now)
    failed, total = re.search(r"failed, (\d+) of (\d+) checks", ran.out).groups()
    assert (failed, total) == (suite.get("failures"), suite.get("tests"))


def test_a_planted_change_of_the_preemption_order_fails_and_names_the_first_differing_pass(
    cli: Cli, small: Path, evicts_the_first: Callable[[], None]
) -> None:
    cli("replay", small, *TIGHT, "--out", "before")
    cli("gate", small, *TIGHT, *MADE, "--keep-passes")
    evicts_the_first()
    ran = cli("gate", small, "--no-steady", "--baseline", "b.json")
    assert ran.code == 1
    (index, was, now) = re.search(
        r"first differ in pass (\d+) \(baseline / now\): victims \[(\d+)\] / \[(\d+)\]", ran.out
    ).groups()
    cli("replay", small, "--no-steady", *TIGHT, "--out", "after")
    compared = cli("compare", "before", "after")
    assert f"from pass {index}," in compared.out
    assert f"victims [{was}] / [{now}]" in compared.out


def test_without_the_pass_log_the_window_is_named(
    cli: Cli, small: Path, evicts_the_first: Callable[[], None]
) -> None:
    cli("gate", small, *TIGHT, *MADE, "--keep-passes")
    exact = Path("b.passes.parquet")
    evicts_the_first()
    index = int(
        re.search(r"in pass (\d+)", cli("gate", small, "--no-steady", "--baseline", "b.json").out)[
            1
        ]
    )
    exact.unlink()
    ran = cli("gate", small, "--no-steady", "--baseline", "b.json")
    assert ran.code == 1
    first, last = map(int, re.search(r"between passes (\d+) and (\d+)", ran.out).groups())
    assert first <= index <= last


def test_a_pass_log_of_another_baseline_is_not_looked_at(cli: Cli, small: Path) -> None:
    cli("gate", small, *TIGHT, *MADE, "--keep-passes")
    log = Path("b.passes.parquet").read_bytes()
    cli("gate", small, "--max-num-seqs", "4", "--baseline", "c.json", "--update")
    Path("c.passes.parquet").write_bytes(log)
    assert cli("gate", small, "--baseline", "c.json").code == 0


def test_the_junit_file_is_one_that_ci_servers_read(
    cli: Cli, small: Path, evicts_the_first: Callable[[], None]
) -> None:
    cli("gate", small, *TIGHT, *MADE)
    cli("gate", small, "--baseline", "b.json", "--junit", "ok.xml")
    evicts_the_first()
    cli("gate", small, "--no-steady", "--baseline", "b.json", "--junit", "failed.xml")
    for name in ("ok.xml", "failed.xml"):
        root = ET.parse(name).getroot()  # noqa: S314 (written just now)
        assert root.tag == "testsuites"
        (suite,) = root
        cases = suite.findall("testcase")
        failed = [case for case in cases if case.find("failure") is not None]
        assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
        assert (int(suite.get("tests")), int(suite.get("failures"))) == (len(cases), len(failed))
        assert bool(failed) == (name == "failed.xml")
        for case in cases:
            assert set(case.attrib) == {"classname", "name", "time"}
            assert float(case.get("time")) == 0
            for failure in case:
                assert (failure.tag, set(failure.attrib)) == ("failure", {"message", "type"})
        assert len({case.get("name") for case in cases}) == len(cases)


def test_the_markdown_is_a_table_with_a_cell_for_every_column(
    cli: Cli, small: Path, evicts_the_first: Callable[[], None]
) -> None:
    cli("gate", small, *TIGHT, *MADE)
    evicts_the_first()
    cli("gate", small, "--no-steady", "--baseline", "b.json", "--markdown", "gate.md")
    page = MarkdownIt("commonmark").enable("table").render(Path("gate.md").read_text())
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    assert page.count("<table>") == 1
    assert {len(re.findall(r"<t[hd]", row)) for row in rows} == {5}
    assert "<h3>b: failed" in page
    assert "first differ" in page


def test_the_step_summary_of_github_gets_the_markdown_at_its_end(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("gate", small, *TIGHT, *MADE)
    summary = Path("summary.md")
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    cli("gate", small, "--baseline", "b.json")
    assert re.fullmatch(r"before\n### b: passed, \d+ checks · vLLM 0\.26\.0\n", summary.read_text())


def test_a_time_within_its_tolerance_passes_and_one_beyond_fails(cli: Cli, small: Path) -> None:
    cli("gate", small, *TIGHT, *MADE)
    baseline = json.loads(Path("b.json").read_text())
    for share, code in ((1.005, 0), (0.9, 1)):
        changed = json.loads(json.dumps(baseline))
        changed["times"]["makespan_ns"]["value"] *= share
        Path("b.json").write_text(json.dumps(changed))
        assert cli("gate", small, "--baseline", "b.json").code == code


def test_no_baseline_is_an_error_that_says_how_to_make_one(cli: Cli, small: Path) -> None:
    ran = cli("gate", small, "--baseline", "none.json")
    assert ran.code == 2
    assert "Make it with --update" in ran.err
    Path("none.json").write_text("[]")
    assert "is no baseline" in cli("gate", small, "--baseline", "none.json").err


FIXTURE_TEST = """
def test_it(schedbench_baseline):
    schedbench_baseline("small.parquet", "b.json", num_gpu_blocks=80, max_model_len=1024)
"""


def run_pytest(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "schedbench.runner.pytest_plugin", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": ":".join(sys.path)},
    )


@pytest.mark.usefixtures("small")
def test_the_fixture_makes_holds_and_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FIXTURE_TEST)
    assert run_pytest("--schedbench-update").returncode == 0
    assert run_pytest().returncode == 0
    baseline = json.loads(Path("b.json").read_text())
    baseline["counters"]["preempted"] += 1
    Path("b.json").write_text(json.dumps(baseline))
    failed = run_pytest()
    assert failed.returncode == 1
    assert "b: failed, 1 of" in failed.stdout
    assert "preempted" in failed.stdout


@pytest.mark.usefixtures("small")
def test_a_refusal_of_the_fixture_is_short_and_names_the_option_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FIXTURE_TEST)
    Path("b.json").write_text('{"baseline_version": 1, "tr')
    damaged = run_pytest()
    assert "cannot be read" in damaged.stdout
    assert run_pytest("--schedbench-update").returncode == 0
    (tmp_path / "test_it.py").write_text(FIXTURE_TEST.replace("=80", "=90"))
    flags = run_pytest()
    (tmp_path / "test_it.py").write_text(FIXTURE_TEST.replace("small.", "absent."))
    trace = run_pytest()
    for ran, told in ((damaged, "b.json"), (flags, "--num-gpu-blocks is 80"), (trace, "absent")):
        assert ran.returncode == 1
        assert told in ran.stdout
        assert "Traceback" not in ran.stdout + ran.stderr
        assert "runner/" not in ran.stdout
        assert " --update" not in ran.stdout
    assert "--schedbench-update" in flags.stdout


def test_the_plug_in_is_announced_to_pytest_and_loads_nothing_heavy() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    named = project["project"]["entry-points"]["pytest11"]["schedbench"]
    loaded = subprocess.run(
        [sys.executable, "-c", f"import sys, {named}; print('pyarrow' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert loaded.stdout == "False\n"
