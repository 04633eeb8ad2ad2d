"""Each named behaviour: a switch that matters, and scenarios on which both releases are equalled.

`behaviours/NAME.RELEASE.jsonl.gz` are passes of the real class of that release, on one scenario
chosen for that behaviour. Where the behaviour is a flag, the older release runs without it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from golden_runs import replayed

from schedbench.errors import UsageError
from schedbench.runner.batch_defaults import batch_defaults
from schedbench.runner.golden_driver import GoldenDriver
from schedbench.runner.golden_log import GoldenLog, first_difference, read_log
from schedbench.runner.golden_sched import SchedBackend
from schedbench.runner.golden_world import RemoteStore
from schedbench.sched.behaviours import RELEASES, all_facts, borders, resolve
from schedbench.sched.config import SchedulerConfig
from schedbench.sched.return_path import PrefixCacheStats, ReturnPath

ROOT = Path(__file__).parents[3]
LOGS = Path(__file__).parent / "behaviours"
OLD, NEW = "0.26.0", "0.33.0"
FLAGS = {
    "active_cap",
    "mtp_lookahead",
    "prefill_interval",
    "threshold_adaptive",
}
BY_THEMSELVES = {"stats_at_admission", "turn_rehash"} | {
    facts.name for facts in all_facts() if facts.name.startswith("config_")
}
IN_SCENARIOS = [facts.name for facts in all_facts() if facts.name not in BY_THEMSELVES]
DECISIONS = (
    "ids", "tok", "new", "resumed", "computed", "hit", "probed", "preempted", "spec", "enc",
    "enc_freed", "emit", "sampled", "finished", "reason", "free1", "free2", "skip1",
    "skip2",
)  # fmt: skip

Decided = list[dict[str, Any]]


def scenario(name: str, release: str) -> GoldenLog:
    return read_log(LOGS / f"{name.replace('_', '-')}.{release}.jsonl.gz")


def paths_of(name: str) -> list[Path]:
    return [LOGS / f"{name.replace('_', '-')}.{release}.jsonl.gz" for release in borders(name)]


def logged(log: GoldenLog, columns: tuple[str, ...] = DECISIONS) -> Decided:
    return [{name: row[name] for name in columns if name in row} for row in log.passes]


def decided(log: GoldenLog, behaviours: str, columns: tuple[str, ...] = DECISIONS) -> Decided:
    """What a mixture decides; the run may end in a stall or in a named failure."""
    store = RemoteStore(log.config.get("hold_frees"))
    driver = GoldenDriver(log, SchedBackend(log, store, behaviours), store)
    return logged(GoldenLog(log.header, log.requests, list(driver.passes())), columns)


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_its_scenario_is_decided_as_by_the_real_class(path: Path) -> None:
    log = read_log(path)
    assert log.passes
    assert first_difference(log, replayed(log)) is None


@pytest.mark.parametrize("name", IN_SCENARIOS)
def test_it_has_a_scenario_of_a_release_without_it_and_of_one_with_it(name: str) -> None:
    releases = [read_log(path).header["vllm"] for path in paths_of(name)]
    assert tuple(releases) == borders(name)


@pytest.mark.parametrize("name", [name for name in IN_SCENARIOS if name not in FLAGS])
def test_switching_it_off_changes_what_the_newer_release_decides(name: str) -> None:
    log = scenario(name, borders(name)[1])
    columns = (*DECISIONS, "freeq2") if name == "uncached_fifo" else DECISIONS
    assert decided(log, f"{name}=off", columns) != logged(log, columns)


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_switching_its_flag_on_changes_what_the_older_release_decides(name: str) -> None:
    old, new = borders(name)
    newer = scenario(name, new)
    with_the_flag = GoldenLog(newer.header | {"vllm_version": old}, newer.requests)
    assert decided(with_the_flag, f"{name}=on") != logged(scenario(name, old))
    with pytest.raises(UsageError, match=rf"vLLM {old} .*; {new}.* ha(s|ve) it"):
        SchedBackend(with_the_flag, RemoteStore())


def flag_of(text: str) -> dict[str, bool]:
    """What `--no-async-scheduling` sets, by field."""
    name = text.removeprefix("--").removeprefix("no-").replace("-", "_")
    return {name: not text.startswith("--no-")}


@pytest.mark.parametrize("name", [facts.name for facts in all_facts() if facts.undone_by])
def test_the_flag_that_undoes_it_makes_a_release_decide_as_without_it(name: str) -> None:
    (undone_by,) = [facts.undone_by for facts in all_facts() if facts.name == name]
    if name in IN_SCENARIOS:
        log = scenario(name, borders(name)[1])
        config = log.config | flag_of(undone_by)
        undone = GoldenLog(log.header | {"config": config}, log.requests, log.passes)
        assert decided(undone, "") == decided(log, f"{name}=off") != logged(log)
        return
    method = "ngram" if name == "config_async" else "draft_model"
    flags = {"vllm_version": borders(name)[1], "num_speculative_tokens": 2, "spec_method": method}
    without = SchedulerConfig(**flags, behaviours=f"{name}=off")
    undone_config = SchedulerConfig(**flags, **flag_of(undone_by))
    assert SchedulerConfig(**flags).passes_in_flight == 2
    assert undone_config.passes_in_flight == without.passes_in_flight == 1


class Counted(ReturnPath):
    """Keeps what was counted over the whole run."""

    def __init__(self) -> None:
        super().__init__()
        self.all = PrefixCacheStats()

    def looked_up(self, request: Any, num_hit_tokens: int) -> None:  # noqa: ANN401
        self.all.record(request, num_hit_tokens)


@pytest.mark.parametrize(
    ("name", "release", "requests", "tokens", "preempted"),
    [  # counted by the real classes, run with statistics on
        ("watermark.0", OLD, 47, 6588, None),
        ("watermark.0", NEW, 10, 1322, None),
        ("preempt_fcfs.0", OLD, 10, 1026, 46),
        ("preempt_fcfs.0", NEW, 8, 788, 3),
    ],
)
def test_statistics_count_every_lookup_or_every_admission(
    name: str, release: str, requests: int, tokens: int, preempted: int | None
) -> None:
    folder = "golden" if release == OLD else "golden-0.33"
    log = read_log(ROOT / "tests" / folder / f"{name}.jsonl.gz")
    store = RemoteStore()
    backend = SchedBackend(log, store)
    backend.scheduler.return_path = counted = Counted()
    assert list(GoldenDriver(log, backend, store).passes()) == log.passes
    assert (counted.all.requests, counted.all.queries) == (requests, tokens)
    if preempted is not None:
        assert counted.all.preempted_requests == preempted


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"vllm_version": "0.29.9"}, "not rounded"),
        ({"vllm_version": "99.0.0"}, r"is not modelled: 0\.26\.0.* and .* are"),
        ({"vllm_version": "main"}, r"is not modelled: 0\.26\.0.* and .* are"),
        ({"behaviours": "zero-skips=on"}, "there is no such behaviour; there are threshold-lone"),
        ({"behaviours": "zero-skip=yes"}, "zero-skip=on or =off"),
        ({"behaviours": "holders-first=on"}, "give one-waiting-queue=on as well"),
        ({"vllm_version": NEW, "max_num_partial_prefills": 2}, "0.26.0 has it"),
        ({"vllm_version": NEW, "max_num_scheduled_tokens": 0}, "from 1"),
        (
            {"vllm_version": NEW, "max_model_len": 64, "long_prefill_token_threshold": 65},
            "exceeds --max-model-len",
        ),
        ({"vllm_version": NEW, "max_num_seqs": 8, "max_num_active_seqs": 9}, "exceeds --max-num"),
        ({"prefill_schedule_interval": 3}, r"with data parallelism only; 0\.33\.0 "),
        (
            {"vllm_version": NEW, "spec_method": "mtp", "num_speculative_tokens": 5,
             "mtp_layers": 5, "block_size": 4},
            "several MTP modules read ahead",
        ),
        (
            {"vllm_version": NEW, "spec_method": "eagle", "num_speculative_tokens": 9,
             "max_num_batched_tokens": 9, "max_num_seqs": 2},
            "does not hold a token beside",
        ),
    ],
)  # fmt: skip
def test_what_a_release_does_not_have_or_allow_is_refused(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SchedulerConfig(**flags)


def test_the_older_release_allows_what_the_newer_refuses() -> None:
    config = SchedulerConfig(max_num_partial_prefills=2, max_model_len=100)
    assert config.threshold == 4
    assert SchedulerConfig(max_num_scheduled_tokens=0).token_budget == 0
    assert SchedulerConfig(max_model_len=64, long_prefill_token_threshold=65).threshold == 65


def test_asynchronous_scheduling_is_on_by_default_as_the_release_has_it() -> None:
    def runs_ahead(release: str, **flags: Any) -> bool:  # noqa: ANN401
        return SchedulerConfig(vllm_version=release, **flags).runs_ahead

    drafts: dict[str, Any] = {"num_speculative_tokens": 2, "spec_method": "ngram"}
    assert [runs_ahead(each, **drafts) for each in (OLD, NEW)] == [False, True]
    staged = [runs_ahead(each, pipeline_parallel_size=2) for each in (OLD, NEW)]
    assert staged == [True, False]
    asked = {"async_scheduling": True, **drafts}
    SchedulerConfig(vllm_version=NEW, **asked).refuse_what_the_engine_refuses()
    with pytest.raises(UsageError, match=f"vLLM {OLD} refuses it"):
        SchedulerConfig(**asked).refuse_what_the_engine_refuses()


@pytest.mark.parametrize(
    ("gib", "gpu", "old", "new"),
    [
        (180, "NVIDIA B200", 8192, 16384),
        (141, "NVIDIA H200", 8192, 8192),
        (119, "NVIDIA GB10", 8192, 2048),
        (80, "NVIDIA A100-SXM4-80GB", 2048, 2048),
    ],
)
def test_the_largest_gpus_get_larger_passes_from_a_later_release(
    gib: int, gpu: str, old: int, new: int
) -> None:
    found = [
        batch_defaults(gib * 2**30, gpu, behaviour=resolve(release)).max_num_batched_tokens
        for release in (OLD, NEW)
    ]
    assert found == [old, new]


def test_a_mixture_says_that_it_is_one() -> None:
    config = SchedulerConfig(behaviours="threshold-lone=on+zero-skip=off")
    formula = "a mixture, no release: 0.26.0 with threshold-lone=on"
    assert next((each.value, each.formula) for each in config.derived()) == (1, formula)
    assert "no release decides like this" in config.warnings()[0]
    for release in RELEASES:
        assert SchedulerConfig(vllm_version=release).switched == []


def test_what_a_behaviour_needs_takes_it_along() -> None:
    gone = SchedulerConfig(vllm_version=NEW, behaviours="one-waiting-queue=off").switched
    assert gone == ["one-waiting-queue=off", "holders-first=off", "pause-holders=off"]


def test_each_behaviour_is_asked_where_the_table_says_and_nowhere_else() -> None:
    said = {
        facts.name: {
            (file.strip(), function.strip())
            for place in facts.read_in.split(";")
            for file, functions in [place.split(":")]
            for function in functions.split(",")
        }
        for facts in all_facts()
        if facts.name
        not in {
            "config_partial_prefills",
            "config_eagle_drop",
        }  # by its flags, with those of other releases
    }
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in sorted([*ROOT.glob("sched/**/*.py"), *ROOT.glob("runner/**/*.py")]):
        # The one tells of what others decide, the others draw cases.
        if path.name in ("config_view.py", "fuzz.py", "fuzz_events.py", "fuzz_flags.py"):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for name in _asked_in(function):
                    found[name].add((str(path.relative_to(ROOT)), function.name))
    assert dict(found) == said


def _asked_in(function: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and (getattr(node.value, "attr", None) or getattr(node.value, "id", "")) == "behaviour"
    }
