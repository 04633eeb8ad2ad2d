"""A summary equals a naive recomputation, row by row in plain Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbench.results.catalog import CATALOG, FAMILIES, flatten
from schedbench.results.drafts import DraftTerms
from schedbench.results.memory_log import MemoryRun
from schedbench.results.metrics import summarize, summarize_timings
from schedbench.results.part_writer import write_part
from schedbench.results.parts import TableOnDisk

SLO = {"ttft": 5 * 10**9, "tpot": 5 * 10**7, "itl": 5 * 10**8}
WARMUP_NS = 10**11
DRAFTS = DraftTerms(num_speculative_tokens=3, kept_tokens=0)


def tables_of(run: MemoryRun) -> tuple[pa.Table, pa.Table, pa.Table]:
    return run.passes.table(), run.requests.table(), run.itl.table()


def summary_of(
    run: MemoryRun,
    *,
    slo: dict[str, int] | None = None,
    warmup_ns: int = 0,
    drafts: DraftTerms | None = None,
) -> dict[str, Any]:
    return summarize(*tables_of(run), slo=slo, warmup_ns=warmup_ns, drafts=drafts)


@given(seed=st.integers(0, 10**6))
def test_counters_are_sums_over_passes_and_requests(made_up: Callable[..., Any], seed: int) -> None:
    run = made_up(seed)
    summary = summary_of(run.in_memory())
    for name in ("tokens_scheduled", "preempted", "preempted_tokens", "admissions_cancelled"):
        assert summary[name] == sum(row[name] for row in run.passes)
    reasons = [row["finish_reason"] for row in run.requests]
    assert summary["requests_finished"] == reasons.count("stop") + reasons.count("length")
    assert summary["requests_unfinished"] == reasons.count(None)
    missing = [
        row["requested_output_tokens"] - row["output_tokens"]
        for row in run.requests
        if row["finish_reason"] in ("stop", "length")
    ]
    assert summary["requests_cut_short"] == sum(each > 0 for each in missing)
    assert summary["output_tokens_cut"] == sum(max(0, each) for each in missing)
    assert summary["requests_aborted"] == reasons.count("abort")
    assert summary["recomputed_tokens"] == sum(row["recomputed_tokens"] for row in run.requests)
    assert summary["waits"].get("seats_full_ns") == sum(
        row["wait_seats_full_ns"] for row in run.requests
    )


@given(seed=st.integers(0, 10**6))
def test_time_and_passes_are_split_by_label_without_rest(
    made_up: Callable[..., Any], seed: int
) -> None:
    run = made_up(seed)
    summary = summary_of(run.in_memory())
    for name in ("binding_limit", "admission_stop", "running_stop"):
        for label, part in summary[name].items():
            chosen = [row for row in run.passes if row[name] == label]
            assert part == {
                "passes": len(chosen),
                "ns": sum(row["duration_ns"] for row in chosen),
            }
    for name in ("binding_limit", "admission_stop", "running_stop", "batch"):
        assert sum(part["passes"] for part in summary[name].values()) == summary["passes"]
        assert sum(part["ns"] for part in summary[name].values()) == summary["busy_ns"]
    closed = summary["admission_stop"].get("closed_by_preemption", {"passes": 0, "ns": 0})
    assert summary["admission_closed_by_preemption"] == closed


@given(seed=st.integers(0, 10**6))
def test_shares_of_time_weigh_each_pass_by_its_duration(
    made_up: Callable[..., Any], seed: int
) -> None:
    run = made_up(seed)
    summary = summary_of(run.in_memory())
    busy = sum(row["duration_ns"] for row in run.passes)
    used = sum(row["kv_blocks_used"] * row["duration_ns"] for row in run.passes)
    assert summary["kv"]["used_share_mean"] == pytest.approx(used / busy / 2000)
    running = sum(row["running"] * row["duration_ns"] for row in run.passes)
    assert summary["queues"]["running_mean"] == pytest.approx(running / busy)
    budget = [row for row in run.passes if row["token_budget"]]
    spent = sum(r["tokens_scheduled"] / r["token_budget"] * r["duration_ns"] for r in budget)
    assert summary["budget"]["used_share_of_time"] == pytest.approx(spent / busy)


@given(seed=st.integers(0, 10**6))
def test_latencies_are_of_finished_requests_after_the_warm_up(
    made_up: Callable[..., Any], seed: int
) -> None:
    run = made_up(seed)
    summary = summary_of(run.in_memory(), warmup_ns=WARMUP_NS)
    for name in ("ttft_ns", "tpot_ns", "e2e_ns"):
        values = [row[name] for row in run.requests if counts(row) and row[name] is not None]
        assert summary[name]["n"] == len(values)
        assert summary[name]["max"] == max(values, default=None)
    early = sum(row["arrival_ns"] < WARMUP_NS for row in run.requests)
    assert summary["requests_in_warmup"] == early
    assert summary["itl_ns"]["n"] == sum(run.itl.values())


@given(seed=st.integers(0, 10**6))
def test_goodput_counts_who_met_every_bound_among_all_who_arrived(
    made_up: Callable[..., Any], seed: int
) -> None:
    run = made_up(seed)
    goodput = summary_of(run.in_memory(), slo=SLO, warmup_ns=WARMUP_NS)["goodput"]
    columns = {"ttft": "ttft_ns", "tpot": "tpot_ns", "itl": "itl_max_ns"}
    met = sum(
        counts(row) and all((row[columns[name]] or 0) <= bound for name, bound in SLO.items())
        for row in run.requests
    )
    arrived = sum(row["arrival_ns"] >= WARMUP_NS for row in run.requests)
    assert goodput["requests_met"] == met
    assert goodput["share"] == (met / arrived if arrived else None)


def counts(row: dict[str, Any]) -> bool:
    return row["finish_reason"] in ("stop", "length") and row["arrival_ns"] >= WARMUP_NS


def test_a_run_of_nothing_has_counters_of_zero_and_no_quotients(
    made_up: Callable[..., Any],
) -> None:
    summary = summary_of(made_up(0, passes=0, requests=0).in_memory(), slo=SLO)
    flat = dict(flatten(summary))
    assert flat["passes"] == flat["requests"] == flat["makespan_ns"] == 0
    assert flat["ttft_ns.p99"] is None
    assert flat["kv.used_share_mean"] is None
    assert flat["requests_per_s"] is None


def test_every_number_of_a_summary_is_in_the_catalog(made_up: Callable[..., Any]) -> None:
    keys = {key for key, _ in flatten(summary_of(made_up(3).in_memory(), slo=SLO, drafts=DRAFTS))}
    named = {key for key in keys if not key.startswith(tuple(f"{f}." for f in FAMILIES))}
    assert named == set(CATALOG)


def test_real_time_that_a_runner_does_not_measure_has_no_percentiles(
    made_up: Callable[..., Any],
) -> None:
    timings = summarize_timings(made_up(1).in_memory().timings.table())
    assert timings["scheduler_ns"]["p50"] == 1000
    assert timings["device_ns"] == {"n": 0} | dict.fromkeys(("mean", "p50", "p90", "p99", "max"))
    assert timings["graph_passes"] == {}


@given(seed=st.integers(0, 10**6), rows_per_part=st.integers(1, 60))
def test_a_summary_does_not_depend_on_how_tables_are_cut(
    made_up: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    rows_per_part: int,
) -> None:
    run = made_up(seed)
    folder = tmp_path_factory.mktemp("cut")
    cut = tuple(
        TableOnDisk(_written(folder / name, table, rows_per_part), ())
        for name, table in zip(
            ("passes", "requests", "itl"), tables_of(run.in_memory()), strict=True
        )
    )
    whole = summary_of(run.in_memory(), slo=SLO, warmup_ns=WARMUP_NS, drafts=DRAFTS)
    assert summarize(*cut, slo=SLO, warmup_ns=WARMUP_NS, drafts=DRAFTS) == whole


def _written(folder: Path, table: pa.Table, rows_per_part: int) -> list[Path]:
    """As a run is on disk: each part with the labels of its own rows only."""
    folder.mkdir()
    files = []
    for first in range(0, table.num_rows, rows_per_part):
        files.append(folder / f"part-{first:06d}.parquet")
        rows = table.slice(first, rows_per_part).to_pylist()
        write_part(files[-1], pa.Table.from_pylist(rows, table.schema))
    return files
