import json
from pathlib import Path

import pytest
from cli_runs import Cli

from schedbench.results.stored_run import StoredRun

TIGHT = ("--num-gpu-blocks", "80", "--max-model-len", "1024")
POLICIES = """
import schedbench

class LastFirst(schedbench.Policy):
    def waiting_key(self, request, state):
        return -request.arrival_time

class OldestVictim(schedbench.Policy):
    def victim(self, request, state):
        return state.running[0]

class Greedy(schedbench.Policy):
    def chunk_tokens(self, request, granted, state):
        return granted + 1

class Broken(schedbench.Policy):
    def may_admit(self, request, state):
        return 1 / 0

class Nothing(schedbench.Policy):
    pass

class Mine(schedbench.Scheduler):
    pass
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A module in the current folder, under a name that no other test has imported."""
    name = f"own_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(POLICIES)
    return name


def test_a_policy_of_ones_own_decides_and_stands_in_the_manifest(
    cli: Cli, small: Path, own: str
) -> None:
    cli("replay", small, *TIGHT, "--out", "plain")
    ran = cli("replay", small, *TIGHT, "--policy-class", f"{own}:OldestVictim", "--out", "mine")
    assert ran.code == 0
    plain, mine = StoredRun.open("plain"), StoredRun.open("mine")
    assert plain.summary["preempted"] != mine.summary["preempted"]
    assert mine.manifest["policy_class"] == f"{own}:OldestVictim"
    assert len(mine.manifest["own_code"][f"{own}:OldestVictim"]) == 16
    assert plain.manifest["own_code"] == {}


def test_a_sweep_compares_policies_with_vllms_own_decisions(
    cli: Cli, small: Path, own: str
) -> None:
    names = f"default,{own}:LastFirst,{own}:OldestVictim"
    ran = cli("sweep", small, *TIGHT, "--jobs", "1", "--policy-class", names, "--no-store",
              "--json")  # fmt: skip
    found = json.loads(ran.out)
    assert [each["flags"]["policy-class"] for each in found] == names.split(",")
    assert len({each["summary"]["preempted"] for each in found}) == 3


def test_a_sweep_sends_a_policy_to_its_processes(cli: Cli, small: Path, own: str) -> None:
    words = ("sweep", small, *TIGHT, "--policy-class", f"default,{own}:OldestVictim", "--json")
    alone = cli(*words, "--jobs", "1", "--no-store")
    assert cli(*words, "--jobs", "2", "--out", "kept").out == alone.out


def test_a_point_is_run_again_when_the_policys_code_has_changed(
    cli: Cli, small: Path, own: str
) -> None:
    words = ("sweep", small, *TIGHT, "--policy-class", f"default,{own}:OldestVictim", "--jobs", "1")
    cli(*words, "--out", "kept")
    Path(f"{own}.py").write_text(POLICIES + "\n# another version\n")
    cli(*words, "--resume", "kept")
    assert len(list(Path("kept/points").glob("*OldestVictim*"))) == 2
    assert len(list(Path("kept/points").glob("*default*"))) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nonsense", "has no class 'Nonsense'"),
        ("Mine", "is no subclass of schedbench.Policy"),
        ("Nothing", "overrides none of waiting_key, may_admit"),
        ("Greedy", "policy Greedy: chunk_tokens returned"),
        ("Broken", "fails in may_admit"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_with_its_name(
    cli: Cli, small: Path, own: str, name: str, message: str
) -> None:
    ran = cli("replay", small, *TIGHT, "--policy-class", f"{own}:{name}", "--no-store")
    assert ran.code == 2
    assert message in ran.err
    assert "fault of schedbench" not in ran.err


def test_a_refused_class_leaves_no_run_folder(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, "--policy-class", "no_such_module:A", "--out", "r")
    assert ran.code == 2
    assert "no module 'no_such_module'" in ran.err
    assert not Path("r").exists()


def test_a_mistyped_policy_is_refused_before_the_sweep_begins(
    cli: Cli, small: Path, own: str
) -> None:
    ran = cli("sweep", small, *TIGHT, "--policy-class", f"default,{own}:Nonsense", "--out", "kept")
    assert ran.code == 2
    assert not Path("kept").exists()


def test_a_scheduler_of_ones_own_is_driven_and_recorded(cli: Cli, small: Path, own: str) -> None:
    cli("replay", small, *TIGHT, "--out", "plain")
    ran = cli("replay", small, *TIGHT, "--scheduler", f"{own}:Mine", "--out", "mine")
    assert ran.code == 0
    plain, mine = StoredRun.open("plain"), StoredRun.open("mine")
    assert mine.passes().equals(plain.passes())
    assert mine.manifest["engine"] == f"{own}:Mine"
    ran = cli("replay", small, *TIGHT, "--scheduler", f"{own}:LastFirst", "--no-store")
    assert (ran.code, "LastFirst has no method" in ran.err) == (2, True)


def test_what_leaves_the_engine_is_written_a_line_a_client_and_pass(cli: Cli, small: Path) -> None:
    ran = cli("replay", small, *TIGHT, "--no-store", "--outputs", "o.jsonl", "--request-events",
              "e.jsonl", "--json")  # fmt: skip
    lines = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    assert {line["client"] for line in lines} == {0, 1}
    finished = [each for line in lines for each in line.get("finished_requests", [])]
    assert len(finished) == 40
    events = [json.loads(line) for line in Path("e.jsonl").read_text().splitlines()]
    evicted = sum(event["type"] == "PREEMPTED" for event in events)
    assert evicted == json.loads(ran.out)["preempted"] > 0
    again = cli("replay", small, *TIGHT, "--no-store", "--outputs", "o.jsonl")
    assert (again.code, "o.jsonl exists already" in again.err) == (4, True)


def test_without_the_short_way_the_rows_are_the_same(cli: Cli, small: Path) -> None:
    cli("replay", small, *TIGHT, "--no-async-scheduling", "--out", "a")
    cli("replay", small, *TIGHT, "--no-async-scheduling", "--no-steady", "--out", "b")
    assert StoredRun.open("a").passes().equals(StoredRun.open("b").passes())


def test_drafts_are_accepted_at_the_rate_given_and_drawn_from_the_seed(
    cli: Cli, small: Path
) -> None:
    def passes(*words: str) -> int:
        ran = cli("replay", small, "--spec-tokens", "3", "--no-store", "--json", *words)
        return int(json.loads(ran.out)["passes"])

    assert passes("--spec-acceptance", "1") < passes("--spec-acceptance", "0")
    assert passes("--seed", "1") == passes("--seed", "1") != passes("--seed", "2")
    ran = cli("replay", small, "--spec-acceptance", "70")
    assert (ran.code, "it must be from 0 to 1" in ran.err) == (2, True)
